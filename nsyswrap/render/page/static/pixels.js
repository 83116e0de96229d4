// A picture that is made pixel by pixel and shown at once: many small boxes cost less than as shapes of the canvas.

// Of each texture (none, stripes, dots, lines, grid) the bits that show the ground, row by row.
const HATCHES = [
  [0, 0, 0, 0],
  [8, 4, 2, 1],
  [0, 6, 6, 0],
  [0, 15, 0, 0],
  [2, 15, 2, 2],
];

class Pixels {
  // `top` is the row of the canvas at which the picture begins.
  constructor(width, height) {
    this.image = new ImageData(width, height);
    this.words = new Uint32Array(this.image.data.buffer);
    Object.assign(this, { width, height, top: 0 });
  }

  clear(top) {
    this.top = top;
    this.words.fill(0);
  }

  // Fill the columns from `left` to `right` of the rows from `top` to `bottom`; an ink has a color and a texture.
  fill(left, right, top, bottom, { color, texture, ground }) {
    const [first, last] = [Math.max(left, 0), Math.min(right, this.width)];
    const end = Math.min(bottom - this.top, this.height);
    for (let y = Math.max(top - this.top, 0); y < end; y++) {
      const row = y * this.width;
      const hatched = HATCHES[texture][(y + this.top) & 3];
      if (hatched === 0) {
        if (last - first > 8) this.words.fill(color, row + first, row + last);
        else for (let x = first; x < last; x++) this.words[row + x] = color;
      } else for (let x = first; x < last; x++) this.words[row + x] = (hatched >> (x & 3)) & 1 ? ground : color;
    }
  }

  show(pen) {
    pen.putImageData(this.image, 0, this.top);
  }
}

// A color as a word of an image, mixed with another one.
function word(color, over = color, share = 1) {
  const parts = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
  const ground = parts(over);
  const [red, green, blue] = parts(color).map((part, i) => Math.round(part * share + ground[i] * (1 - share)));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
