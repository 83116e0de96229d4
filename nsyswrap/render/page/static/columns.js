// Unpack what render/page/timeline.py packed: columns of numbers, and texts.

const OLD_BROWSER =
  "This browser cannot unpack the timeline: it lacks DecompressionStream. " +
  "Use Chrome or Edge 103, Firefox 113, Safari 16.4, or newer.";

// Let the browser draw and answer where so much was done in one go.
const IN_ONE_GO = 8; // ms
let resumed = -IN_ONE_GO;

async function breathe() {
  if (performance.now() - resumed >= IN_ONE_GO) await pause();
}

async function pause() {
  await new Promise((resume) => setTimeout(resume));
  resumed = performance.now();
}

function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text); // older browsers lack it; it takes half the time
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

const PART = 1 << 15; // bytes that are unpacked in one go

async function inflate(text) {
  const bytes = decoded(text);
  let place = 0;
  const parts = new ReadableStream({
    async pull(stream) {
      await breathe();
      if (place < bytes.length) stream.enqueue(bytes.subarray(place, (place += PART)));
      else stream.close();
    },
  });
  return new Uint8Array(await new Response(parts.pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer());
}

async function unpack(content) {
  const bytes = await inflate(content.packed);
  const columns = {};
  let place = 0;
  for (const [name, count, size, base, ascending] of content.columns) {
    const values = new Float64Array(count).fill(base);
    for (let plane = 0, weight = 1; plane < size; plane++, weight *= 256) {
      await breathe();
      for (let i = 0; i < count; i++) values[i] += bytes[place + i] * weight;
      place += count;
    }
    if (ascending) for (let i = 1; i < count; i++) values[i] += values[i - 1];
    columns[name] = values;
  }
  return [columns, JSON.parse(new TextDecoder().decode(bytes.subarray(place)))];
}

// The first place in [from, to) of an ascending column whose value is over the limit, or at it.
function firstOver(column, limit, from, to) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (column[middle] > limit) to = middle;
    else from = middle + 1;
  }
  return from;
}

function firstFrom(column, limit, from, to) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (column[middle] >= limit) to = middle;
    else from = middle + 1;
  }
  return from;
}
