// A picture that is made pixel by pixel and shown at once: many small boxes cost less than as shapes of the canvas.

// Of each texture (none, stripes, dots, lines, grid, cross) the bits that show the ground, row by row.
const HATCHES = [
  [0, 0, 0, 0],
  [8, 4, 2, 1],
  [0, 6, 6, 0],
  [0, 15, 0, 0],
  [2, 15, 2, 2],
  [1, 10, 4, 10],
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

  // Fill the columns from `left` to `right` of the rows from `top` to `bottom`.
  fill(left, right, top, bottom, ink) {
    const { words, width } = this;
    const [first, last] = [Math.max(left, 0), Math.min(right, width)];
    const end = Math.min(bottom - this.top, this.height);
    for (let y = Math.max(top - this.top, 0); y < end; y++) {
      const row = y * width;
      const at = ((y + this.top) & 3) << 2;
      const plain = ink[at] === ink[at + 1] && ink[at] === ink[at + 2] && ink[at] === ink[at + 3];
      if (plain && last - first > 8) words.fill(ink[at], row + first, row + last);
      else for (let x = first; x < last; x++) words[row + x] = ink[at | (x & 3)];
    }
  }

  // Fill a part of one column.
  rise(x, top, bottom, ink) {
    const { words, width } = this;
    const end = Math.min(bottom - this.top, this.height);
    for (let y = Math.max(top - this.top, 0); y < end; y++) words[y * width + x] = ink[(((y + this.top) & 3) << 2) | (x & 3)];
  }

  show(pen) {
    if (!onPaper()) {
      pen.putImageData(this.image, 0, this.top);
      return;
    }
    // Browsers print what was drawn on a canvas, and pixels that were put there are not drawn: an image is.
    const sheet = Object.assign(document.createElement("canvas"), { width: this.width, height: this.height });
    sheet.getContext("2d").putImageData(this.image, 0, 0);
    pen.clearRect(0, this.top, this.width, this.height);
    pen.drawImage(sheet, 0, this.top);
  }
}

// An ink: the words of a color with a texture at each place of four by four pixels.
function inkOf(color, texture = 0, ground = color) {
  return Uint32Array.from({ length: 16 }, (_, i) => ((HATCHES[texture][i >> 2] >> (i & 3)) & 1 ? ground : color));
}

// A color as a word of an image, mixed with another one.
function word(color, over = color, share = 1) {
  const parts = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
  const ground = parts(over);
  const [red, green, blue] = parts(color).map((part, i) => Math.round(part * share + ground[i] * (1 - share)));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
