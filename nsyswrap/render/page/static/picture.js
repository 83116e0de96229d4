// How a timeline is drawn. Narrower than two pixels there are no single events: a column of pixels is filled as
// high as the share of its time that is taken, from the events where all are kept, else from bins. What is wider
// stands over it. Only what is on the screen is drawn.

const HEAD = 20; // height of the axis
const PALE = 0.4; // of bins that are seen as such: what is in them is not kept one by one
const WIDE = 2; // pixels from which on an event is drawn by itself
const CAPTION = 40; // pixels from which on it has its name in it
const FONT = "11px system-ui, sans-serif";
const BEYOND = 300; // pixels over and under the screen that are drawn, too

const onPaper = () => document.documentElement.classList.contains("printed");
const navigation = () => document.querySelector("nav")?.offsetHeight ?? 0; // pixels that it covers at the top

class Picture {
  constructor(canvas, content, view) {
    Object.assign(this, { canvas, content, view, selected: -1, lane: -1, found: null, measured: null });
    this.rows = content.rows;
    this.pen = canvas.getContext("2d");
    this.refresh();
  }

  // Colors are read when they change, not for each picture.
  refresh() {
    const style = getComputedStyle(document.documentElement);
    const colors = {};
    this.color = (name) => (colors[name] ??= style.getPropertyValue(`--${name}`).trim());
    const plain = {};
    this.plain = (name) => (plain[name] ??= inkOf(word(this.color(name))));
    const ground = word(this.color("ground"));
    const lane = this.color("lane");
    const inks = (share) =>
      this.content.series.map(({ hue, texture }) => inkOf(word(this.color(`hue-${hue}`), lane, share), texture, ground));
    [this.inks, this.pales] = [inks(1), inks(PALE)];
    this.widths = new Map();
  }

  x(time) {
    return ((time - this.view.start) / this.view.span) * this.width;
  }

  time(x) {
    return this.view.start + (x / this.width) * this.view.span;
  }

  laneAt(y) {
    return y < this.axis + HEAD ? -1 : this.rows.laneAt(y);
  }

  // Where the axis is: over the lanes, or where the top of the picture is not seen, over those on the screen.
  get axis() {
    const { top } = this.canvas.getBoundingClientRect();
    return onPaper() ? 0 : Math.min(Math.max(navigation() - top, 0), this.rows.height - HEAD);
  }

  // The rows of pixels that are on the screen, of a picture of this height; all of them on paper.
  visible(height) {
    if (onPaper()) return [0, height];
    const { top } = this.canvas.getBoundingClientRect();
    return [Math.max(-top - BEYOND, 0), Math.min(innerHeight - top + BEYOND, height)];
  }

  // Draw a screen of lanes, with pauses in between, and show none: what is done for the first time takes longest.
  async rehearse() {
    this.fit();
    const lanes = this.begin(this.canvas.width, 0, Math.min(Math.ceil(innerHeight * this.scale), this.canvas.height));
    for (const lane of lanes) {
      await breathe();
      this.drawLane(lane);
    }
  }

  // Take on the size of the canvas, and find out what the view is made of.
  fit() {
    this.scale = Math.max(devicePixelRatio || 1, onPaper() ? 2 : 1); // paper is finer than a screen
    this.width = Math.max(this.canvas.getBoundingClientRect().width, 50);
    this.height = this.rows.height;
    const size = [Math.round(this.width * this.scale), Math.round(this.height * this.scale)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) {
      [this.canvas.width, this.canvas.height] = size;
      this.canvas.style.height = `${this.height}px`;
    }
    this.look();
  }

  draw() {
    this.fit();
    const [top, bottom] = this.visible(this.height);
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    if (bottom <= top) return;
    this.paint(this.canvas.width, Math.floor(top * this.scale), Math.ceil(bottom * this.scale));
    this.pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.pen.font = FONT;
    this.captions.forEach((caption) => this.caption(...caption));
    for (const lane of this.rows.shown) {
      const { curve } = this.content.lanes[lane];
      if (curve) drawScale(this, curve, this.rows.tops[lane]);
    }
    this.outline();
    this.connection();
    this.ticks();
    this.measure();
  }

  // Find out what the view is made of.
  look() {
    this.perPixel = this.view.span / this.width;
    this.tickTimes = this.view.ticks(this.width);
    this.regions = this.content.bins.regions(this.view.start, this.view.end, this.perPixel, true);
    this.fine = this.regions.filter(([, , level]) => !this.isWide(level));
    this.coarse = this.regions.filter(([, , level]) => this.isWide(level));
    this.name = this.selected >= 0 ? this.content.events.name[this.selected] : -1;
  }

  // Make the pixels of the lanes that are in these rows of pixels.
  paint(columns, top, bottom) {
    this.begin(columns, top, bottom).forEach((lane) => this.drawLane(lane));
    this.pixels.show(this.pen);
  }

  begin(columns, top, bottom) {
    if (this.pixels?.width !== columns || this.pixels.height !== bottom - top) {
      this.pixels = new Pixels(columns, bottom - top);
      this.filled = new Map(); // the columns of each series
      this.totals = new Float64Array(columns + 2);
    }
    this.pixels.clear(top);
    this.columns = columns;
    this.perColumn = this.view.span / columns;
    this.captions = [];
    const seen = (lane) => (this.rows.tops[lane] + LANE) * this.scale >= top && this.rows.tops[lane] * this.scale <= bottom;
    return this.rows.shown.filter(seen);
  }

  // True where the picture is of bins that are wider than pixels: single events are not known here.
  get endsHere() {
    return (this.coarse || []).reduce((sum, [from, to]) => sum + to - from, 0) > 0.02 * this.view.span;
  }

  isWide(level) {
    return level !== null && level.width > WIDE * this.perPixel;
  }

  // Column of pixels of a time, and row of a place.
  column(time) {
    return ((time - this.view.start) / this.view.span) * this.columns;
  }

  row(y) {
    return Math.round(y * this.scale);
  }

  drawLane(lane) {
    const { events, bins } = this.content;
    const { start, end } = this.view;
    const top = this.rows.tops[lane];
    if (this.tickTimes.length) this.ground(top, lane === this.lane);
    const { curve } = this.content.lanes[lane];
    if (curve) {
      drawCurve(this, curve, top);
      return;
    }
    this.empty();
    const singles = [];
    const marks = [];
    const least = WIDE * this.perPixel;
    const [first, last] = events.range(lane, start, end);
    const whole = !bins.lanes[lane];
    const { name, found } = this;
    const marking = name >= 0 || found;
    for (let i = first; i < last; i++) {
      if (events.end[i] < start) continue;
      if (events.duration[i] >= least || i === this.selected) singles.push(i);
      else if (whole) this.add(events.start[i], events.end[i], events.duration[i], events.series[i]);
      if (marking && (events.name[i] === name || found?.has(events.name[i]))) marks.push(i);
    }
    this.addRegions(lane, whole ? [] : this.fine, this.inks); // with what was added above where the lane is whole
    this.addRegions(lane, whole ? [] : this.coarse, this.pales);
    this.singles(top, singles);
    this.marks(top, marks);
  }

  // The lines of the axis go through the lanes.
  ground(top, chosen) {
    this.pixels.fill(0, this.columns, this.row(top + 1), this.row(top + LANE - 1), this.plain(chosen ? "chosen" : "lane"));
    const ink = this.plain("line");
    for (const [time] of this.tickTimes) {
      const x = Math.round(this.column(time));
      this.pixels.fill(x, x + Math.round(this.scale), this.row(top), this.row(top + LANE), ink);
    }
  }

  // Add all events of a lane, wide ones too.
  addAll(lane) {
    const { start, end } = this.view;
    const regions = this.content.bins.lanes[lane] ? this.regions : [[start, end, null]];
    regions.forEach((region) => this.addRegion(lane, region, Infinity));
  }

  addRegions(lane, regions, inks) {
    regions.forEach((region) => this.addRegion(lane, region, WIDE * this.perPixel));
    if (this.sums.size) this.stack(this.rows.tops[lane], inks);
    this.empty();
  }

  // Add the events of a part of time that are shorter than `least`.
  addRegion(lane, [from, to, level], least) {
    const { events, bins } = this.content;
    if (level) {
      for (const part of level.parts.get(lane) || []) this.addBins(level, part, from, to);
      return;
    }
    const [first, last] = events.range(lane, from, to);
    for (let i = first; i < last; i++) {
      if (events.duration[i] >= least) continue;
      const start = Math.max(events.start[i], from);
      const end = Math.min(events.end[i], to);
      if (end >= start) this.add(start, end, end - start, events.series[i]);
    }
  }

  // Begin new sums of each series, and of all together.
  empty() {
    this.sums = new Map();
    this.totals.fill(0);
  }

  // The sums of a series, a number for each column of pixels.
  sumsOf(series) {
    let sums = this.sums.get(series);
    if (sums) return sums;
    sums = this.filled.get(series);
    if (sums) sums.fill(0);
    else this.filled.set(series, (sums = new Float64Array(this.columns + 2)));
    this.sums.set(series, sums);
    return sums;
  }

  addBins({ start, width }, { series, at, taken }, from, to) {
    const [first, last] = placesOf(at, (from - start) / width, (to - start) / width);
    if (first === last) return;
    const { totals } = this;
    const sums = this.sumsOf(series);
    const [origin, columns] = [(start - this.view.start) / this.perColumn, width / this.perColumn];
    for (let i = first; i < last; i++) {
      const begins = start + at[i] * width;
      if (columns > 1 || begins < from || begins + width > to) {
        const [left, right] = [Math.max(begins, from), Math.min(begins + width, to)];
        this.spread(sums, left, right, (taken[i] * (right - left)) / width);
        continue;
      }
      const x = Math.max(origin + at[i] * columns, 0); // in one column of pixels or in two
      const column = Math.floor(x);
      const next = (taken[i] * Math.max(x + columns - column - 1, 0)) / columns;
      const here = taken[i] - next || 1e-9;
      sums[column] += here;
      totals[column] += here;
      sums[column + 1] += next;
      totals[column + 1] += next;
    }
  }

  add(start, end, taken, series) {
    this.spread(this.sumsOf(series), start, end, taken);
  }

  // Add what is taken of a stretch of time to the columns of pixels that it meets.
  spread(sums, start, end, taken) {
    const from = (start - this.view.start) / this.perColumn;
    const to = (end - this.view.start) / this.perColumn;
    const first = from > 0 ? Math.floor(from) : 0;
    if (to <= first + 1 || to - from < 1e-9) {
      if (first >= this.columns || to < 0) return;
      sums[first] += taken || 1e-9;
      this.totals[first] += taken || 1e-9;
      return;
    }
    const last = Math.min(Math.ceil(to), this.columns);
    const perColumn = taken / (to - from);
    for (let x = first; x < last; x++) {
      const here = Math.max((Math.min(to, x + 1) - Math.max(from, x)) * perColumn, 1e-9);
      sums[x] += here;
      this.totals[x] += here;
    }
  }

  // Draw the sums from the ground up: all together are as high as the share of the time that a column holds.
  stack(top, inks, whole = this.perColumn) {
    const every = [...this.sums.keys()].sort((a, b) => a - b);
    const [sums, paints] = [every.map((series) => this.sums.get(series)), every.map((series) => inks[series])];
    const { columns, totals, pixels } = this;
    const ground = this.row(top + LANE - 2);
    const most = ground - this.row(top + 2);
    const least = Math.round(1.5 * this.scale);
    for (let x = 0; x < columns; x++) {
      const total = totals[x];
      if (!total) continue;
      const height = Math.min(Math.max((total * most) / whole, least), most) / total;
      let sum = 0;
      let bottom = ground;
      for (let i = 0; i < sums.length; i++) {
        const here = sums[i][x];
        if (!here) continue;
        sum += here;
        const end = ground - Math.round(sum * height);
        pixels.rise(x, end, bottom, paints[i]);
        bottom = end;
      }
    }
  }

  singles(top, every) {
    const { events } = this.content;
    const rows = [this.row(top + 2), this.row(top + LANE - 2)];
    const gap = Math.max(Math.round(this.scale / 2), 1);
    for (const i of every) {
      const from = Math.max(Math.round(this.column(events.start[i])), -2);
      const to = Math.min(Math.round(this.column(events.end[i])), this.columns + 2);
      this.pixels.fill(from, Math.max(to - (to - from > 2 ? gap : 0), from + 1), ...rows, this.inks[events.series[i]]);
      const wide = (Math.min(to, this.columns) - Math.max(from, 0)) / this.scale;
      if (wide > CAPTION) this.captions.push([events.names[events.name[i]], Math.max(from, 0) / this.scale, wide, top + 2]);
    }
  }

  // A line under the events of the name that is selected or searched.
  marks(top, every) {
    const { events } = this.content;
    const rows = [this.row(top + LANE - 4), this.row(top + LANE - 1)];
    const ink = this.plain("text");
    let last = -1;
    for (const i of every) {
      const from = Math.max(Math.round(this.column(events.start[i])), last);
      const to = Math.max(Math.round(this.column(events.end[i])), from + 2);
      if (to > last) this.pixels.fill(from, to, ...rows, ink);
      last = Math.max(last, to);
    }
  }

  ticks() {
    const { pen, axis } = this;
    pen.fillStyle = this.color("quiet");
    pen.clearRect(0, axis, this.width, HEAD);
    for (const [time, text] of this.tickTimes) {
      const x = this.x(time);
      if (x + 4 + this.wide(text) < this.width) pen.fillText(text, x + 3, axis + 11);
    }
  }

  wide(text) {
    if (this.widths.size > 20_000) this.widths.clear();
    if (!this.widths.has(text)) this.widths.set(text, this.pen.measureText(text).width);
    return this.widths.get(text);
  }

  caption(name, from, wide, top) {
    const { pen } = this;
    let [text, kept] = [name, name.length];
    while (kept && this.wide(text) > wide - 10) {
      kept = Math.floor(kept * 0.85);
      text = `${name.slice(0, kept)}…`;
    }
    if (kept < 3) return;
    pen.fillStyle = this.color("ground");
    pen.fillRect(from + 3, top + 2, this.wide(text) + 4, LANE - 8);
    pen.fillStyle = this.color("text");
    pen.fillText(text, from + 5, top + 13);
  }

  outline() {
    const { events } = this.content;
    const i = this.selected;
    const top = this.rows.tops[events.lane[i]] + 2;
    if (i < 0 || Number.isNaN(top)) return;
    const from = Math.max(this.x(events.start[i]), -2);
    const to = Math.min(Math.max(this.x(events.end[i]), from + WIDE), this.width + 2);
    if (to < 0 || from > this.width) return;
    this.pen.strokeStyle = this.color("text");
    this.pen.lineWidth = 2;
    this.pen.strokeRect(from, top, to - from, LANE - 4);
  }

  // From the launch call to what it launched, for what is selected.
  connection() {
    if (this.selected < 0) return;
    const { events } = this.content;
    const middle = (i) => this.rows.tops[events.lane[i]] + LANE / 2;
    this.pen.strokeStyle = this.color("text");
    this.pen.lineWidth = 1.5;
    for (const [call, work] of events.launches(this.selected)) {
      const [start, end] = [middle(call), middle(work)];
      if (Number.isNaN(start + end)) continue; // a lane that is hidden
      const [from, to] = [this.x(events.start[call]), this.x(events.start[work])];
      this.pen.beginPath();
      this.pen.moveTo(from, start);
      this.pen.bezierCurveTo(from, (start + end) / 2, to, (start + end) / 2, to, end);
      this.pen.stroke();
    }
  }

  measure() {
    if (!this.measured) return;
    const [from, to] = this.measured.map((time) => this.x(time));
    this.pen.fillStyle = this.color("accent");
    this.pen.globalAlpha = 0.15;
    this.pen.fillRect(from, 0, to - from, this.height);
    this.pen.globalAlpha = 1;
    for (const x of [from, to]) this.pen.fillRect(x - 0.5, 0, 1, this.height);
  }
}
