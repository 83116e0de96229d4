// Timelines: what mouse, wheel, fingers, keys and buttons do, and what is said of what they point at.

class Timeline {
  constructor(article) {
    this.content = unpack(JSON.parse(document.getElementById(article.dataset.content).textContent));
    this.canvas = article.querySelector("canvas");
    this.readout = article.querySelector(".readout");
    this.view = new View(this.content.length, this.content.origin);
    this.fingers = new Map(); // and the mouse, while it is down: where each is, and the time that it holds
    this.picture = new Picture(this.canvas, this.content, this.view);
    this.canvas.style.height = `${this.picture.height}px`;
    this.labels(article.querySelector(".labels"));
    this.legends(article.querySelector(".legends"));
    this.listen(article);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // Draw with the next frame, once, however often it was asked for.
  draw() {
    Object.assign(this.canvas.dataset, { start: this.view.start, end: this.view.end });
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.canvas.clientWidth) this.picture.draw();
    });
  }

  // The names of the lanes, as text beside the picture.
  labels(column) {
    const add = (kind, text, height) => {
      const label = document.createElement("div");
      Object.assign(label, { className: kind, textContent: text, title: text });
      label.style.height = `${height}px`;
      column.append(label);
    };
    add("axis", "", HEAD);
    this.content.lanes.forEach((lane, i) => {
      if (lane.group !== this.content.lanes[i - 1]?.group) add("group", lane.group, HEAD);
      add("lane", lane.title, LANE);
    });
  }

  legends(place) {
    const families = new Map();
    for (const look of this.content.series) families.set(look.family, [...(families.get(look.family) || []), look]);
    for (const [family, looks] of families) {
      const list = document.createElement("ul");
      list.className = "legend";
      list.append(...[{ name: `${family}:` }, ...looks].map((look) => this.entry(look)));
      place.append(list);
    }
  }

  entry(look) {
    const item = document.createElement("li");
    if (look.hue !== undefined) {
      const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      swatch.setAttribute("class", "swatch");
      const layers = [["class", `hue-${look.hue}`], ["fill", `url(#texture-${look.texture})`]];
      for (const [key, value] of layers.slice(0, look.texture ? 2 : 1)) {
        const patch = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        patch.setAttribute("width", "14");
        patch.setAttribute("height", "14");
        patch.setAttribute(key, value);
        swatch.append(patch);
      }
      item.append(swatch);
    }
    item.append(look.name);
    return item;
  }

  listen(article) {
    article.querySelectorAll("[data-action]").forEach((button) => {
      button.addEventListener("click", () => this.act(button.dataset.action));
    });
    this.canvas.addEventListener("keydown", (event) => {
      const action = KEYS[event.key];
      if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.act(action);
    });
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.release(event));
    this.canvas.addEventListener("pointercancel", (event) => this.letGo(event));
    this.canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.tell(this.picture.selected); // a finger leaves with every tap
    });
  }

  act(action) {
    const { view, content } = this;
    ({
      in: () => view.zoom(0.5),
      out: () => view.zoom(2),
      left: () => view.pan(-0.25),
      right: () => view.pan(0.25),
      home: () => view.home(),
      gpu: () => content.gpu && view.show(content.gpu[0], content.gpu[1]),
      up: () => this.choose(this.picture.lane - 1),
      down: () => this.choose(this.picture.lane + 1),
      next: () => this.step(1),
      previous: () => this.step(-1),
      none: () => this.select(null),
    })[action]();
    this.draw();
  }

  wheel(event) {
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (sideways) this.view.pan((event.deltaX || event.deltaY) / 1000);
    const turned = Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 400);
    if (!sideways && !this.view.zoom(turned, this.picture.time(event.offsetX))) return; // the page scrolls
    event.preventDefault();
    this.draw();
  }

  grab(event) {
    const x = event.offsetX;
    if (!this.fingers.size) this.moved = false;
    this.fingers.set(event.pointerId, { x, from: x, time: this.picture.time(x) });
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const finger = this.fingers.get(event.pointerId);
    if (!finger) {
      this.point(event.offsetX, event.offsetY);
      return;
    }
    finger.x = event.offsetX;
    this.moved ||= this.fingers.size > 1 || Math.abs(finger.x - finger.from) > 3;
    if (this.moved) this.drag(...this.fingers.values());
    this.draw();
  }

  // Bring the times that are held to where they are held: one finger moves, two zoom.
  drag(one, other = one) {
    const { width } = this.picture;
    const apart = Math.abs(other.x - one.x);
    const span = apart > 10 ? (Math.abs(other.time - one.time) / apart) * width : this.view.span;
    const start = (one.time + other.time - ((one.x + other.x) / width) * span) / 2;
    this.view.show(start, start + span);
  }

  letGo(event) {
    this.fingers.delete(event.pointerId);
    for (const finger of this.fingers.values()) finger.time = this.picture.time(finger.x);
  }

  release(event) {
    this.letGo(event);
    if (this.moved || this.fingers.size) return;
    this.picture.lane = this.picture.laneAt(event.offsetY);
    this.select(this.at(event.offsetX, event.offsetY));
    if (!this.picture.selected) this.point(event.offsetX, event.offsetY);
    this.draw();
  }

  // The event at a place, where it is drawn as one; of several the one that began last.
  at(x, y) {
    const lane = this.content.lanes[this.picture.laneAt(y)];
    if (!lane) return null;
    const least = (WIDE * this.view.span) / this.picture.width;
    const time = this.picture.time(x);
    const here = (item) => item.duration >= least && item.start <= time && item.end > time;
    return lane.items.findLast(here) || null;
  }

  point(x, y) {
    const item = this.at(x, y);
    if (item) this.tell(item);
    else this.crowd(this.picture.laneAt(y), x);
  }

  // What a column of pixels holds where there is no single event to name.
  crowd(lane, x) {
    if (lane < 0) {
      this.tell(this.picture.selected);
      return;
    }
    const [from, to] = [this.picture.time(x - 1), this.picture.time(x + 2)];
    const { title, group, whole } = this.content.lanes[lane];
    let [least, most] = whole ? [from, to] : [Infinity, -Infinity]; // of bins, the ends of those that are met
    const found = new Map();
    for (const [start, end, taken, begun, series] of stretches(this.content, lane, from, to)) {
      if (!whole) [least, most] = [Math.min(least, start), Math.max(most, end)];
      const inside = whole ? Math.min(end, to) - Math.max(start, from) : taken;
      const [count, time] = found.get(series) || [0, 0];
      found.set(series, [count + begun, time + inside]);
    }
    const place = `${group}, ${title}, at ${this.view.label(this.picture.time(x), this.view.span / 1000)}`;
    this.readout.textContent = `${place}: ${this.contents(found, most - least) || "no events"}`;
  }

  // What was found in so many ns: events by series, as counts and times.
  contents(found, length) {
    const byTime = [...found].sort(([, [, a]], [, [, b]]) => b - a);
    const parts = byTime.map(([series, [count, time]]) => {
      const { name } = this.content.series[series];
      return `${count ? `${count} × ${name}` : `${name}, started earlier`}, ${percent((100 * time) / length)} of the time`;
    });
    return parts.length ? `in ${duration(length)}: ${parts.join("; ")}` : "";
  }

  select(item) {
    this.picture.selected = item;
    if (item) this.picture.lane = item.lane;
    this.tell(item);
  }

  tell(item) {
    this.readout.textContent = item ? this.sentence(item) : "Nothing selected.";
  }

  // Name, duration and launch of an event.
  sentence(item) {
    const { title, group } = this.content.lanes[item.lane];
    const begun = ((this.content.origin + item.start) / 1e9).toFixed(9);
    return `${item.name}: ${duration(item.duration)}, at ${begun} s. ${group}, ${title}. ${this.launch(item)}`;
  }

  launch(item) {
    const call = this.content.items[item.call];
    if (call) {
      const before = duration(item.start - call.start);
      return `Launched by ${call.name} (${duration(call.duration)}), which started ${before} earlier.`;
    }
    const { family } = this.content.series[item.series];
    if (family === "kernels" || family === "copies") {
      return item.call === -1 ? "Its launch call was not recorded." : "Its launch call is not kept on this page.";
    }
    const launched = this.content.items.filter((other) => other.call === item.number);
    if (!launched.length) return "";
    return `Launched ${launched[0].name}${launched.length > 1 ? ` and ${launched.length - 1} more` : ""}.`;
  }

  choose(lane) {
    this.picture.lane = Math.min(Math.max(lane, 0), this.content.lanes.length - 1);
    const { title, group, count, items } = this.content.lanes[this.picture.lane];
    const kept = items.length === count ? "" : `, ${items.length} drawn one by one`;
    this.readout.textContent = `${group}, ${title}: ${count} events${kept}.`;
  }

  // Select the event of the chosen lane that comes next, and show it.
  step(by) {
    const lane = Math.max(this.picture.lane, 0);
    const { items } = this.content.lanes[lane];
    if (!items.length) return;
    const now = items.indexOf(this.picture.selected);
    const seen = items.findIndex((item) => item.start >= this.view.start);
    const next = now >= 0 ? now + by : Math.max(seen, 0);
    const item = items[Math.min(Math.max(next, 0), items.length - 1)];
    this.select(item);
    const narrow = item.duration / this.view.span < 0.01 || item.duration > this.view.span;
    const call = this.content.items[item.call] || item;
    const from = Math.min(call.start, item.start);
    if (narrow) this.view.show(from - 2 * (item.end - from) - 20, item.end + 2 * (item.end - from) + 20);
    else if (item.start < this.view.start || item.end > this.view.end) this.view.to(item.start);
  }
}

const KEYS = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
  "+": "in",
  "=": "in",
  "-": "out",
  Home: "home",
  n: "next",
  p: "previous",
  Escape: "none",
};

const timelines = [...document.querySelectorAll("article.timeline")].map((article) => new Timeline(article));
const redraw = () => timelines.forEach((timeline) => timeline.picture.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printed");
  redraw();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printed");
  redraw();
});
