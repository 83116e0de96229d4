// Curves: lanes without events, such as the clock and the power of a GPU.

// Add a lane for each curve behind all others.
function addCurves(content, columns) {
  let place = 0;
  for (const [group, title, unit, joined, count, parts] of content.curves) {
    const values = columns.values.subarray(place, place + count).map((value) => value / parts);
    const curve = { unit, joined, times: columns.times.subarray(place, place + count), values };
    curve.least = curve.values.reduce((a, b) => Math.min(a, b));
    curve.most = curve.values.reduce((a, b) => Math.max(a, b));
    content.lanes.push({ group, title, family: "curve", level: 0, kept: 0, count: 0, curve });
    place += count;
  }
}

// Draw a curve from its least to its greatest value. A value holds until the next sample. The samples in one column
// of pixels are one line, from the lowest to the highest.
function drawCurve(picture, { times, values, least, most }, top) {
  const { pixels, view } = picture;
  const [floor, ground] = [picture.row(top + 3), picture.row(top + LANE - 3)];
  const ink = picture.plain("text");
  const thick = Math.max(Math.round(picture.scale), 1);
  const first = Math.max(firstOver(times, view.start, 0, times.length) - 1, 0);
  const end = Math.min(firstOver(times, view.end, first, times.length), times.length);
  let [column, low, high, y] = [-1, 0, 0, 0];
  const close = (until) => {
    if (column < 0) return;
    pixels.fill(column, column + 1, low, high + thick, ink);
    pixels.fill(column + 1, until, y, y + thick, ink);
  };
  for (let i = first; i < end; i++) {
    const at = Math.max(Math.round(picture.column(times[i])), 0);
    const next = Math.round(ground - ((values[i] - least) / (most - least)) * (ground - floor));
    if (at === column) [low, high] = [Math.min(low, next), Math.max(high, next)];
    else {
      close(at);
      [low, high] = column < 0 ? [next, next] : [Math.min(y, next), Math.max(y, next)];
      column = at;
    }
    y = next;
  }
  close(end < times.length ? picture.columns : column + 1);
}

// The scale of a curve: its greatest and its least value, at the left end of its lane.
function drawScale({ pen, color }, curve, top) {
  pen.font = "9px system-ui, sans-serif";
  for (const [value, y] of [[curve.most, top + 9], [curve.least, top + LANE - 3]]) {
    const text = quantity(curve, value);
    pen.fillStyle = color("lane");
    pen.fillRect(2, y - 8, pen.measureText(text).width + 4, 9);
    pen.fillStyle = color("quiet");
    pen.fillText(text, 4, y);
  }
  pen.font = FONT;
}

// What a curve says at a time.
function curveAt(curve, time) {
  const { times, values, joined } = curve;
  const i = firstOver(times, time, 0, times.length) - 1;
  const now = i < 0 ? "no sample yet" : `${quantity(curve, values[i])}${joined ? `, ${joined}` : ""}`;
  return `${now}; ${curveRange(curve)} in all`;
}

function curveRange(curve) {
  return `from ${quantity(curve, curve.least)} to ${quantity(curve, curve.most)}`;
}

function quantity({ unit }, value) {
  return unit === "bytes" ? amount(value) : `${value.toLocaleString("en")} ${unit}`.trim();
}
