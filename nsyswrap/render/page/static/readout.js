// What is said of an event, of a place where events are too narrow to tell apart, and of a lane.

class Readout {
  constructor(element, content, picture) {
    Object.assign(this, { element, content, picture });
  }

  say(text) {
    if (this.element.textContent !== text) this.element.textContent = text;
  }

  tell(i) {
    this.say(i >= 0 ? this.sentence(this.content.events.item(i)) : "Nothing selected.");
  }

  place(lane) {
    const { title, group } = this.content.lanes[lane];
    return `${group}, ${title}`;
  }

  moment(time) {
    return `${((this.content.origin + time) / 1e9).toFixed(9)} s`;
  }

  // Name, duration, figures and launch of an event.
  sentence(item) {
    const parts = [`${item.name}: ${duration(item.duration)}, at ${this.moment(item.start)}. ${this.place(item.lane)}.`];
    const same = this.picture.instances?.(item);
    if (same) parts.push(same);
    if (item.shape) parts.push(`${item.shape[0].toUpperCase()}${item.shape.slice(1)}.`);
    if (item.bytes) {
      const speed = item.duration ? `, ${amount(item.bytes / (item.duration / 1e9))}/s` : "";
      parts.push(`${amount(item.bytes)}${speed}.`);
    }
    if (item.path) parts.push(`In ${item.path}.`);
    if (item.correlation) parts.push(`Correlation id ${item.correlation}.`);
    return [...parts, this.launch(item)].join(" ").trim();
  }

  launch(item) {
    const { events, series } = this.content;
    const pairs = events.launches(item.number);
    if (item.call >= 0) {
      const call = events.item(item.call);
      const before = duration(item.start - call.start);
      return `Launched by ${call.name} (${duration(call.duration)}), which started ${before} earlier.`;
    }
    const { family } = series[item.series];
    if (family === "kernels" || family === "copies") {
      return item.call === -1 ? "Its launch call was not recorded." : "Its launch call is not kept on this page.";
    }
    if (!pairs.length) return "";
    const { name } = events.item(pairs[0][1]);
    return `Launched ${name}${pairs.length > 1 ? ` and ${pairs.length - 1} more` : ""}.`;
  }

  lane(lane) {
    const { count, kept, curve } = this.content.lanes[lane];
    if (curve) {
      this.say(`${this.place(lane)}: ${curveRange(curve)}.`);
      return;
    }
    const part = kept === count ? "" : `, ${kept} kept one by one`;
    this.say(`${this.place(lane)}: ${count} events${part}.`);
  }

  // What a column of pixels holds where there is no single event to name.
  crowd(lane, x) {
    if (lane < 0) {
      this.tell(this.picture.selected);
      return;
    }
    const { curve } = this.content.lanes[lane];
    if (curve) {
      this.say(`${this.place(lane)}, at ${this.moment(this.picture.time(x))}: ${curveAt(curve, this.picture.time(x))}.`);
      return;
    }
    const { found, least, most } = this.around(lane, x);
    const place = `${this.place(lane)}, at ${this.picture.view.label(this.picture.time(x), this.picture.view.span / 1000)}`;
    this.say(`${place}: ${this.list(found, most - least) || "no events"}`);
  }

  // The events of the three columns of pixels around a place.
  around(lane, x) {
    return contents(this.content, this.picture, lane, this.picture.time(x - 1), this.picture.time(x + 2));
  }

  // What was found in so many ns: events by series, as counts and times.
  list(found, length) {
    const byTime = [...found].sort(([, [, a]], [, [, b]]) => b - a);
    const parts = byTime.map(([series, [count, time]]) => {
      const { name } = this.content.series[series];
      return `${count ? `${count} × ${name}` : `${name}, started earlier`}, ${percent((100 * time) / length)} of the time`;
    });
    return parts.length ? `in ${duration(length)}: ${parts.join("; ")}` : "";
  }
}

// Bytes as nsyswrap writes them.
function amount(bytes) {
  const [factor, unit] = [[1, "bytes"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"], [1e12, "TB"]].findLast(([least]) => bytes >= least) || [1, "bytes"];
  return `${Number((bytes / factor).toPrecision(3))} ${unit}`;
}

// Events of a lane in a stretch of time by series, as counts of those that begin and times; from bins where not all
// are kept: then the stretch is that of the bins that it meets.
function contents(content, picture, lane, from, to) {
  const found = new Map();
  let [least, most] = [from, to];
  const add = (series, begun, time) => {
    const [count, sum] = found.get(series) || [0, 0];
    found.set(series, [count + begun, sum + time]);
  };
  const { events, bins } = content;
  const regions = bins.lanes[lane] ? bins.regions(from, to, Math.min(picture.perPixel, (to - from) / 3)) : [[from, to, null]];
  for (const [start, end, level] of regions) {
    if (level) {
      const first = Math.floor((start - level.start) / level.width) * level.width + level.start;
      const last = Math.max(Math.ceil((end - level.start) / level.width) * level.width + level.start, first + level.width);
      [least, most] = [Math.min(least, first), Math.max(most, last)];
      for (const { series, at, taken, begun } of level.parts.get(lane) || []) {
        const [from, to] = placesOf(at, (first - level.start) / level.width, (last - level.start) / level.width);
        for (let i = from; i < to; i++) add(series, begun[i], taken[i]);
      }
      continue;
    }
    const [first, last] = events.range(lane, start, end);
    for (let i = first; i < last; i++) {
      if (events.end[i] < start) continue;
      const begun = events.start[i] >= start || regions.length === 1 ? 1 : 0;
      add(events.series[i], begun, Math.min(events.end[i], end) - Math.max(events.start[i], start));
    }
  }
  return { found, least, most };
}
