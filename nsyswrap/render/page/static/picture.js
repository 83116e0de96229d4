// How a timeline is drawn. Narrower than two pixels there are no single events: a column of pixels is filled as
// high as the share of its time that is taken, from the events themselves where all of a lane are kept, else from
// its bins. What is wider stands over it, with an outline.

const LANE = 22; // height of a lane, in pixels
const HEAD = 20; // height of the line above a group of lanes, and of the axis
const PALE = 0.4; // of bins that are seen as such: what is in them is not kept one by one
const WIDE = 2; // pixels from which on an event is drawn by itself

// Columns come as they were packed: starts and bins as distances.
function unpack(content) {
  const events = content.events;
  let start = 0; // of the first event, and from there on the distances
  content.items = events.start.map((step, i) => ({
    number: i,
    start: (start += step),
    end: start + events.duration[i],
    duration: events.duration[i],
    lane: events.lane[i],
    series: events.series[i],
    name: events.names[events.name[i]],
    call: events.call[i],
  }));
  content.lanes.forEach((lane, i) => (lane.items = content.items.filter((item) => item.lane === i)));
  for (const level of content.levels) {
    for (const bySeries of Object.values(level.lanes)) {
      for (const bins of Object.values(bySeries)) {
        let bin = 0;
        bins.at = bins.at.map((step) => (bin += step));
      }
    }
  }
  return content;
}

// The stretches of a lane that are not single events: [start, end, time taken, events begun, series].
function* stretches(content, lane, start, end) {
  if (content.lanes[lane].whole) {
    for (const item of content.lanes[lane].items) {
      if (item.end >= start && item.start <= end) yield [item.start, item.end, item.duration, 1, item.series];
    }
    return;
  }
  const covers = (level) => level.start <= start && level.start + level.bins * level.width >= end;
  const level = content.levels.findLast(covers) || content.levels[0];
  for (const [series, bins] of Object.entries(level.lanes[lane] || {})) {
    for (let i = 0; i < bins.at.length; i++) {
      const from = level.start + bins.at[i] * level.width;
      if (from + level.width < start || from > end) continue;
      yield [from, from + level.width, (bins.share[i] / 1000) * level.width, bins.begun[i], Number(series)];
    }
  }
}

class Picture {
  constructor(canvas, content, view) {
    Object.assign(this, { canvas, content, view, selected: null, lane: -1 });
    this.tops = [];
    let top = HEAD;
    content.lanes.forEach((lane, i) => {
      if (lane.group !== content.lanes[i - 1]?.group) top += HEAD;
      this.tops.push(top);
      top += LANE;
    });
    this.height = top + 4;
  }

  x(time) {
    return ((time - this.view.start) / this.view.span) * this.width;
  }

  time(x) {
    return this.view.start + (x / this.width) * this.view.span;
  }

  laneAt(y) {
    return this.tops.findIndex((top) => y >= top && y < top + LANE);
  }

  draw() {
    const scale = devicePixelRatio || 1;
    this.width = Math.max(this.canvas.clientWidth, 50);
    this.canvas.width = this.width * scale;
    this.canvas.height = this.height * scale;
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(scale, scale);
    this.style = getComputedStyle(document.documentElement);
    this.inks = new Map();
    this.axis();
    this.content.lanes.forEach((_, lane) => {
      this.ground(lane);
      this.density(lane);
      this.singles(lane);
    });
    this.connection();
  }

  color(name) {
    return this.style.getPropertyValue(`--${name}`).trim();
  }

  // What a series is filled with: its hue, and its texture over it.
  ink(series) {
    if (!this.inks.has(series)) {
      const { hue, texture } = this.content.series[series];
      this.inks.set(series, texture ? this.textured(this.color(`hue-${hue}`), texture) : this.color(`hue-${hue}`));
    }
    return this.inks.get(series);
  }

  textured(hue, texture) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 4;
    const pen = tile.getContext("2d");
    pen.fillStyle = hue;
    pen.fillRect(0, 0, 4, 4);
    pen.fillStyle = this.color("ground");
    if (texture === 1) for (let i = 0; i < 4; i++) pen.fillRect(i, 3 - i, 1, 1);
    else if (texture === 2) pen.fillRect(1, 1, 2, 2);
    else pen.fillRect(0, 1, 4, 1);
    if (texture === 4) pen.fillRect(1, 0, 1, 4);
    return this.pen.createPattern(tile, "repeat");
  }

  axis() {
    const { pen } = this;
    pen.font = "11px system-ui, sans-serif";
    for (const [time, text] of this.view.ticks(this.width)) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.fillStyle = this.color("line");
      pen.fillRect(x, HEAD - 5, 1, this.height);
      pen.fillStyle = this.color("quiet");
      if (x + 4 + pen.measureText(text).width < this.width) pen.fillText(text, x + 3, 11);
    }
  }

  ground(lane) {
    this.pen.fillStyle = this.color(lane === this.lane ? "chosen" : "lane");
    this.pen.fillRect(0, this.tops[lane] + 1, this.width, LANE - 2);
  }

  // Add up what each column of pixels holds, by series, and draw it from the ground up.
  density(lane) {
    const columns = new Map();
    const perPixel = this.view.span / this.width;
    let pale = false;
    for (const [start, end, taken, , series] of stretches(this.content, lane, this.view.start, this.view.end)) {
      if (this.content.lanes[lane].whole && end - start >= WIDE * perPixel) continue;
      pale ||= !this.content.lanes[lane].whole && end - start > WIDE * perPixel;
      if (!columns.has(series)) columns.set(series, new Float64Array(this.width + 1));
      const column = columns.get(series);
      const [from, to] = [Math.max(this.x(start), 0), Math.min(this.x(end), this.width)];
      const first = Math.floor(from);
      const last = Math.min(Math.max(Math.ceil(to), first + 1), this.width);
      for (let x = first; x < last; x++) {
        const part = end > start ? (Math.min(to, x + 1) - Math.max(from, x)) / (this.x(end) - this.x(start)) : 1;
        column[x] += Math.max(part * taken, 1e-9);
      }
    }
    this.pen.globalAlpha = pale ? PALE : 1;
    this.stack(lane, columns, perPixel);
    this.pen.globalAlpha = 1;
  }

  stack(lane, columns, perPixel) {
    const room = LANE - 4;
    const bottoms = new Float64Array(this.width + 1).fill(this.tops[lane] + LANE - 2);
    for (const [series, column] of [...columns].sort(([a], [b]) => a - b)) {
      this.pen.fillStyle = this.ink(series);
      this.pen.beginPath();
      for (let x = 0; x < this.width; x++) {
        if (!column[x]) continue;
        const left = bottoms[x] - (this.tops[lane] + 2);
        const height = Math.min(Math.max((column[x] / perPixel) * room, 1.5), left);
        this.pen.rect(x, bottoms[x] - height, 1, height);
        bottoms[x] -= height;
      }
      this.pen.fill();
    }
  }

  singles(lane) {
    for (const item of this.content.lanes[lane].items) {
      const [from, to] = [this.x(item.start), this.x(item.end)];
      if (to < 0 || from > this.width || (to - from < WIDE && item !== this.selected)) continue;
      this.single(item, Math.max(from, -2), Math.min(Math.max(to, from + WIDE), this.width + 2));
    }
  }

  single(item, from, to) {
    const { pen } = this;
    const top = this.tops[item.lane] + 2;
    pen.fillStyle = this.ink(item.series);
    pen.fillRect(from, top, to - from, LANE - 4);
    pen.strokeStyle = this.color(item === this.selected ? "text" : "ground");
    pen.lineWidth = item === this.selected ? 2 : 1;
    pen.strokeRect(from + 0.5, top + 0.5, to - from - 1, LANE - 5);
    if (to - from > 40) this.caption(item, Math.max(from, 0), Math.min(to, this.width), top);
  }

  caption(item, from, to, top) {
    const { pen } = this;
    pen.font = "11px system-ui, sans-serif";
    let [text, kept] = [item.name, item.name.length];
    while (kept && pen.measureText(text).width > to - from - 10) {
      kept = Math.floor(kept * 0.85);
      text = `${item.name.slice(0, kept)}…`;
    }
    if (kept < 3) return;
    pen.fillStyle = this.color("ground");
    pen.fillRect(from + 3, top + 2, pen.measureText(text).width + 4, LANE - 8);
    pen.fillStyle = this.color("text");
    pen.fillText(text, from + 5, top + 13);
  }

  // From the launch call to what it launched, for what is selected.
  connection() {
    if (!this.selected) return;
    for (const [call, item] of launches(this.content, this.selected)) {
      const [from, to] = [this.x(call.start), this.x(item.start)];
      const [start, end] = [this.tops[call.lane] + LANE / 2, this.tops[item.lane] + LANE / 2];
      this.pen.strokeStyle = this.color("text");
      this.pen.lineWidth = 1.5;
      this.pen.beginPath();
      this.pen.moveTo(from, start);
      this.pen.bezierCurveTo(from, (start + end) / 2, to, (start + end) / 2, to, end);
      this.pen.stroke();
    }
  }
}

// Pairs of a call and what it launched, of which one is selected.
function launches(content, selected) {
  const call = content.items[selected.call];
  if (call) return [[call, selected]];
  return content.items.filter((item) => item.call === selected.number).map((item) => [selected, item]);
}
