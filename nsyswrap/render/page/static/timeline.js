// Timelines: what buttons, keys and links do, and what is selected.

class Timeline {
  constructor(article, number) {
    Object.assign(this, { article, number, canvas: article.querySelector(".picture canvas") });
    this.ready = this.load();
  }

  async load() {
    const say = (text) => (this.article.querySelector(".readout").textContent = text);
    if (!globalThis.DecompressionStream) {
      say(OLD_BROWSER);
      return;
    }
    await breathe();
    const content = JSON.parse(document.getElementById(this.article.dataset.content).textContent);
    const [columns, texts] = await unpack(content);
    delete content.packed;
    await breathe();
    addCurves(content, columns);
    content.events = new Events(content, columns, texts);
    content.bins = new Bins(content);
    await content.bins.build(content, columns);
    await breathe();
    content.rows = new Rows(content.lanes);
    this.content = content;
    this.view = new View(content.length, content.origin);
    this.picture = new Picture(this.canvas, content, this.view);
    const find = (name) => this.article.querySelector(name);
    this.overview = new Overview(find(".overview"), content, this.picture, () => this.draw());
    this.readout = new Readout(find(".readout"), content, this.picture);
    this.measure = new Measure(find(".measure"), content, this.picture);
    this.search = new Search(find(".search input"), find(".search output"), content, this.picture);
    this.limit = new Limit(find(".limit"), content, this.picture);
    this.picture.instances = (item) => this.instances(item);
    this.labels();
    this.pointer = new Pointer(this);
    this.wayBack = new WayBack(this);
    this.listen();
    this.view.around(...content.opens);
    await pause(); // what is done for the first time takes longest: each of these alone
    this.open();
    await pause();
    await this.overview.prepare();
    await pause();
    await this.picture.rehearse();
    await pause();
    this.overview.draw();
    this.picture.draw();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    for (const kind of ["scroll", "resize"]) addEventListener(kind, () => this.draw(), { passive: true });
  }

  // Select the place of the first finding, where it is in view.
  open() {
    const [place] = Object.values(this.content.findings);
    if (place && place[0] < this.view.end && place[1] > this.view.start) this.selectAlike(...place);
  }

  // Select the event of a lane that is most like a part of time, or the lane if there is none.
  selectAlike(start, end, lane) {
    if (lane < 0) return;
    const i = mostAlike(this.content.events, start, end, lane);
    if (i >= 0) this.select(i);
    else this.pick(lane);
  }

  labels() {
    this.content.rows.label(this.article.querySelector(".labels"), () => {
      this.labels();
      this.draw();
    });
    const folded = this.content.lanes.length - this.content.rows.shown.length;
    const button = this.article.querySelector("[data-action=lanes]");
    Object.assign(button, { hidden: !folded, textContent: `${folded} more lane${folded === 1 ? "" : "s"}` });
    this.canvas.style.height = `${this.content.rows.height}px`;
    this.article.querySelector(".paper").textContent = this.content.rows.cut;
  }

  // Draw with the next frame, once, however often it was asked for.
  draw() {
    Object.assign(this.canvas.dataset, { start: this.view.start, end: this.view.end });
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (!this.canvas.clientWidth) return;
      this.picture.draw();
      this.overview.draw();
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.rest(), 200);
    });
  }

  // What is said of the view once a movement is over.
  rest() {
    this.limit.show();
    this.pointer.rest();
    this.wayBack.show();
    keepInAddress(this);
  }

  listen() {
    this.article.querySelectorAll("[data-action]").forEach((button) => {
      button.addEventListener("click", () => this.act(button.dataset.action));
    });
    this.canvas.addEventListener("keydown", (event) => {
      const action = KEYS[event.key];
      if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.act(action);
    });
    const { field } = this.search;
    field.addEventListener("input", () => {
      this.search.look();
      this.draw();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.act(event.shiftKey ? "previous" : "next");
      if (event.key === "Escape") {
        field.value = "";
        this.search.look();
        this.canvas.focus();
        this.draw();
      }
    });
  }

  act(action) {
    const { view, content, picture } = this;
    if (MOVES.includes(action)) view.keep();
    ({
      in: () => view.zoom(0.5, this.middle),
      out: () => view.zoom(2, this.middle),
      left: () => view.pan(-0.25),
      right: () => view.pan(0.25),
      home: () => view.home(),
      opens: () => view.around(...content.opens),
      gpu: () => content.gpu && view.around(...content.gpu),
      up: () => this.choose(-1),
      down: () => this.choose(1),
      next: () => this.step(1),
      previous: () => this.step(-1),
      later: () => this.along(1),
      earlier: () => this.along(-1),
      fit: () => this.fit(picture.selected),
      undo: () => view.undo(),
      back: () => this.wayBack.go(),
      search: () => this.search.field.focus(),
      lanes: () => (content.rows.showAll(), this.labels()),
      none: () => (this.measure.clear(), this.select(-1)),
    })[action]();
    this.draw();
  }

  // Zoom about the selected event where it is seen.
  get middle() {
    const { events } = this.content;
    const i = this.picture.selected;
    const { start, end } = this.view;
    if (i < 0 || events.end[i] < start || events.start[i] > end) return (start + end) / 2;
    return (Math.max(events.start[i], start) + Math.min(events.end[i], end)) / 2;
  }

  // The event at a place, where it is drawn as one; of several the one that began last.
  at(x, y) {
    const lane = this.picture.laneAt(y);
    if (lane < 0) return -1;
    const { events } = this.content;
    const least = WIDE * this.picture.perPixel;
    const time = this.picture.time(x);
    const [first, last] = events.range(lane, time, time);
    for (let i = last - 1; i >= first; i--) if (events.duration[i] >= least && events.end[i] > time) return i;
    return -1;
  }

  point(x, y) {
    const i = this.at(x, y);
    if (i >= 0) this.readout.tell(i);
    else this.readout.crowd(this.picture.laneAt(y), x);
  }

  select(i) {
    this.picture.selected = i;
    if (i >= 0) this.pick(this.content.events.lane[i]);
    this.readout.tell(i);
    markRows(this.content, i);
  }

  pick(lane) {
    this.picture.lane = lane;
    if (this.content.rows.reveal(lane)) this.labels();
  }

  // How many events have the name of this one; those of a kernel or a call are meant.
  instances(item) {
    const { events, lanes } = this.content;
    this.counts ??= countsOf(events.name, events.names.length);
    const count = this.counts[events.name[item.number]];
    const part = lanes.some((lane) => lane.kept < lane.count) ? " kept on this page" : "";
    return count > 1 ? `One of ${count.toLocaleString("en")} of this name${part}.` : "";
  }

  choose(by) {
    const { rows } = this.content;
    this.picture.lane = rows.further(this.picture.lane, by);
    if (this.picture.lane < 0) return;
    this.readout.lane(this.picture.lane);
    this.scroll();
  }

  // Select the next event that was searched for, or the next one of the selected name, or of the chosen lane.
  step(by) {
    const { events } = this.content;
    const { selected } = this.picture;
    if (this.search.active) this.go(this.search.places, by);
    else if (selected >= 0) this.go(this.ofName(events.name[selected]), by);
    else this.along(by);
  }

  ofName(name) {
    if (this.listed?.name !== name) this.listed = { name, places: this.content.events.named(new Set([name])) };
    return this.listed.places;
  }

  // Select the next event of the chosen lane.
  along(by) {
    const lane = this.picture.lane >= 0 ? this.picture.lane : this.content.rows.shown[0];
    const [first, last] = this.content.events.lanes[lane] || [0, 0];
    this.go(Array.from({ length: last - first }, (_, i) => first + i), by);
  }

  go(places, by) {
    if (!places.length) return;
    this.select(nextIn(this.content.events, places, this.picture.selected, this.view.start, by));
    this.bring(this.picture.selected);
    this.scroll();
  }

  // Scroll so that the chosen lane is on the screen, between the axis and what is said below.
  scroll() {
    const top = this.content.rows.tops[this.picture.lane];
    const [least, most] = this.sight;
    if (top < least || top > most) scrollBy(0, top - (least + most) / 2);
  }

  // Between which tops lanes are seen.
  get sight() {
    const { top } = this.canvas.getBoundingClientRect();
    const end = Math.min(this.article.querySelector(".panel").getBoundingClientRect().top, innerHeight);
    return [navigation() + HEAD - top, end - LANE - top];
  }

  // Move or zoom so that an event is seen well.
  bring(i) {
    const item = this.content.events.item(i);
    const { view } = this;
    const narrow = item.duration / view.span < 0.01 || item.duration > view.span;
    if (narrow) this.fit(i, 2);
    else if (item.start < view.start || item.end > view.end) view.to(item.start);
  }

  // Show the event at a place, else the time of the crowd that the readout tells of there, else all.
  fitAt(x, y) {
    const lane = this.picture.laneAt(y);
    const i = this.at(x, y);
    const crowd = i < 0 && lane >= 0 ? this.readout.around(lane, x) : null;
    if (!crowd?.found.size) return this.fit(i);
    this.view.show(crowd.least, crowd.most);
    this.draw();
  }

  // Show an event with the call that launched it; all if there is none.
  fit(i, room = 0.3) {
    const item = this.content.events.item(i);
    if (!item) this.view.home();
    else {
      const call = this.content.events.item(item.call);
      const from = call && item.end - call.start < 50 * item.duration ? Math.min(call.start, item.start) : item.start;
      const more = room * (item.end - from) + 20;
      this.view.show(from - more, item.end + more);
    }
    this.draw();
  }
}

// How often each number below `size` is there.
function countsOf(numbers, size) {
  const counts = new Uint32Array(size);
  for (const number of numbers) counts[number] += 1;
  return counts;
}

const MOVES = ["in", "out", "left", "right", "home", "opens", "gpu", "next", "previous", "later", "earlier", "fit", "back"];
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
  ".": "later",
  ",": "earlier",
  f: "fit",
  u: "undo",
  "/": "search",
  Escape: "none",
};
