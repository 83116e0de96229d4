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

// Draw a curve from its least to its greatest value. A value holds until the next sample.
function drawCurve(picture, { times, values, least, most }, top) {
  const { pixels, view } = picture;
  const [floor, ground] = [picture.row(top + 3), picture.row(top + LANE - 3)];
  const ink = picture.plain("text");
  const high = (i) => Math.round(ground - ((values[i] - least) / (most - least)) * (ground - floor));
  let i = Math.max(firstOver(times, view.start, 0, times.length) - 1, 0);
  let before = null;
  for (; i < times.length && times[i] <= view.end; i++) {
    const from = Math.max(Math.round(picture.column(times[i])), 0);
    const to = i + 1 < times.length ? Math.min(Math.round(picture.column(times[i + 1])), picture.columns) : from + 1;
    const y = high(i);
    if (before !== null && from < picture.columns) pixels.fill(from, from + 1, Math.min(before, y), Math.max(before, y) + 1, ink);
    pixels.fill(from, Math.max(to, from + 1), y, y + Math.max(Math.round(picture.scale), 1), ink);
    before = y;
  }
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
