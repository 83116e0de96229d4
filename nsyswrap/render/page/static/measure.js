// What lies between two times: how long it is, how busy each GPU is in it, and which kernels take most of it.

const TOP_KERNELS = 5;

class Measure {
  constructor(element, content, picture) {
    Object.assign(this, { element, content, picture });
  }

  clear() {
    this.picture.measured = null;
    this.element.hidden = true;
  }

  show(from, to) {
    const times = [Math.max(Math.min(from, to), 0), Math.min(Math.max(from, to), this.content.length)].map(Math.round);
    this.picture.measured = times;
    this.element.hidden = false;
    const line = (text) => Object.assign(document.createElement("p"), { textContent: text });
    const head = line(`Measured: ${duration(times[1] - times[0])}. `);
    const option = `--time ${timeOption(this.content, ...times)}`;
    head.append(codeToCopy(option));
    this.element.replaceChildren(head, ...this.busy(...times).map(line), line(this.kernels(...times)));
  }

  // True if all events of this time are on the page.
  complete(from, to) {
    const { bins } = this.content;
    return !bins.lanes.includes(true) || bins.detail.some(([start, end]) => start <= from && to <= end);
  }

  busy(from, to) {
    const { lanes } = this.content;
    const groups = new Map();
    lanes.forEach((lane, i) => {
      if (lane.family !== "kernels") return;
      if (!groups.has(lane.group)) groups.set(lane.group, []);
      groups.get(lane.group).push(i);
    });
    return [...groups].map(([group, mine]) => {
      if (this.complete(from, to)) return `${group}: busy ${percent((100 * this.covered(mine, from, to)) / (to - from || 1))} of this time.`;
      return `${group}: ${this.idle(group, from, to)}`;
    });
  }

  // The time in which something ran in one of these lanes.
  covered(lanes, from, to) {
    const { events } = this.content;
    const spans = lanes.flatMap((lane) => {
      const [first, last] = events.range(lane, from, to);
      return Array.from({ length: Math.max(last - first, 0) }, (_, i) => [events.start[first + i], events.end[first + i]]);
    });
    let [sum, reached] = [0, from];
    for (const [start, end] of spans.sort(([a], [b]) => a - b)) {
      sum += Math.max(Math.min(end, to) - Math.max(start, reached), 0);
      reached = Math.max(reached, Math.min(end, to));
    }
    return sum;
  }

  // Idle time is counted in bins for each process: of several processes on a GPU the busy share is unknown.
  idle(group, from, to) {
    const { lanes } = this.content;
    const mine = lanes.flatMap((lane, i) => (lane.group === group && lane.family === "idle by cause" ? [i] : []));
    if (mine.length > 1) return "select less of the time for its busy share; not all events are on this page.";
    let idle = 0;
    for (const lane of mine) {
      const { found, least, most } = contents(this.content, this.picture, lane, from, to);
      for (const [, time] of found.values()) idle += (time * (to - from)) / (most - least);
    }
    return `idle for about ${percent((100 * idle) / (to - from || 1))} of this time, between its first and last operation.`;
  }

  kernels(from, to) {
    const { events, lanes, series } = this.content;
    const times = new Map();
    const add = (name, count, time) => {
      const known = times.get(name) || [0, 0];
      times.set(name, [known[0] + count, known[1] + time]);
    };
    const complete = this.complete(from, to);
    lanes.forEach((lane, number) => {
      if (lane.family !== "kernels") return;
      if (!complete) {
        const { found } = contents(this.content, this.picture, number, from, to);
        for (const [of, [count, time]] of found) if (series[of].family === "kernels") add(series[of].name, count, time);
        return;
      }
      const [first, last] = events.range(number, from, to);
      for (let i = first; i < last; i++) {
        const inside = Math.min(events.end[i], to) - Math.max(events.start[i], from);
        if (inside >= 0 && series[events.series[i]].family === "kernels") add(events.names[events.name[i]], 1, inside);
      }
    });
    const top = [...times].sort(([, [, a]], [, [, b]]) => b - a).slice(0, TOP_KERNELS);
    if (!top.length) return "No kernel runs in this time.";
    const texts = top.map(([name, [count, time]]) => `${complete ? "" : "about "}${duration(time)} in ${count.toLocaleString("en")} × ${name}`);
    return `${complete ? "Kernels with the most time" : "Classes of kernels"}: ${texts.join("; ")}.`;
  }
}

// A part of time as the option --time takes it: on the clock of the capture.
function timeOption({ origin }, from, to) {
  return `${Math.round(origin + from)}ns/${Math.round(origin + to)}ns`;
}

// A command with a button that copies it.
function codeToCopy(text) {
  const whole = document.createElement("span");
  const code = Object.assign(document.createElement("code"), { textContent: text });
  const copy = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
  copy.setAttribute("aria-label", `Copy ${text}`);
  whole.append(code, " ", copy);
  return whole;
}
