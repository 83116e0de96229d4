// The part of a timeline that is seen: times in ns from the first event on; its labels count from the capture's start.

const SCALES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// Round as Python does: what lies in the middle goes to the even digit.
function fixed(value, digits) {
  const text = value.toFixed(digits);
  const middle = value.toFixed(digits + 25).endsWith(`5${"0".repeat(24)}`);
  return middle && text.at(-1) % 2 ? (value - 10 ** -(digits + 1)).toFixed(digits) : text;
}

// As nsyswrap writes times on the terminal: three digits or so.
function duration(ns) {
  const shown = (factor) => Math.abs((ns / factor).toPrecision(3)); // how large it is as it will be read
  const [factor, unit] = SCALES.findLast(([least]) => shown(least) < 1000) || SCALES[0];
  const value = ns / factor;
  if (factor === 1 && Number.isInteger(value)) return `${value} ns`;
  const size = shown(factor);
  return `${fixed(value, size < 10 ? 2 : size < 100 ? 1 : 0)} ${unit}`;
}

// A little is not nothing, nor is nearly all everything.
function percent(share) {
  const text = fixed(share, 1);
  if (text === "0.0" && share > 0) return "under 0.1 %";
  return text === "100.0" && share < 100 ? "over 99.9 %" : `${text} %`;
}

class View {
  constructor(length, origin) {
    this.length = length;
    this.origin = origin;
    this.past = []; // views to go back to
    this.kept = 0; // when the last of them was kept
    this.home();
  }

  // Keep this view to go back to it.
  keep() {
    this.past.push([this.start, this.end]);
    if (this.past.length > 200) this.past.shift();
    this.kept = 0;
  }

  // Keep the first view of a movement.
  keepOnce(pause = 700) {
    const now = performance.now();
    if (now - this.kept > pause) this.keep();
    this.kept = now;
  }

  undo() {
    this.kept = 0;
    let before = this.past.pop();
    while (before && before[0] === this.start && before[1] === this.end) before = this.past.pop();
    if (before) [this.start, this.end] = before;
  }

  home() {
    this.show(-0.01 * this.length, 1.01 * this.length);
  }

  get span() {
    return this.end - this.start;
  }

  // Show this time, as far as there is any; no less than 20 ns of it.
  show(start, end) {
    const most = 1.02 * this.length;
    const span = Math.min(Math.max(end - start, Math.min(20, most)), most);
    const middle = (start + end) / 2;
    this.start = Math.min(Math.max(middle - span / 2, -0.01 * this.length), 1.01 * this.length - span);
    this.end = this.start + span;
  }

  // Show this time and a little around it.
  around(start, end) {
    const more = 0.01 * (end - start);
    this.show(start - more, end + more);
  }

  // Zoom by a factor; the time `at` stays where it is.
  zoom(factor, at = (this.start + this.end) / 2) {
    const before = this.span;
    const span = Math.min(Math.max(before * factor, 20), 1.02 * this.length);
    const start = at - (at - this.start) * (span / before);
    this.show(start, start + span);
    return this.span !== before;
  }

  // Move by a share of what is seen.
  pan(share) {
    const by = share * this.span;
    this.show(this.start + by, this.end + by);
  }

  // Bring a time to the left third.
  to(time) {
    this.show(time - this.span / 3, time + (2 * this.span) / 3);
  }

  // Ticks at round times, about one every 90 pixels.
  ticks(width) {
    const rough = (this.span / Math.max(width, 1)) * 90;
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = [1, 2, 5, 10].map((part) => part * power).find((size) => size >= rough) || 10 * power;
    const found = [];
    const first = Math.ceil((this.origin + this.start) / step) * step - this.origin;
    for (let time = first; time <= this.end; time += step) found.push(time);
    return found.map((time) => [time, this.label(time, step)]);
  }

  label(time, step) {
    const most = Math.max(this.origin + this.end, step);
    const [factor, unit] = SCALES.find(([least]) => most >= least) || SCALES[3];
    const digits = Math.max(0, Math.ceil(Math.log10(factor / step) - 1e-9));
    return `${((this.origin + time) / factor).toFixed(Math.min(digits, 9))} ${unit}`;
  }
}
