"use strict";

// Tables: sort by a header's button, filter by a word, save as CSV, copy a name.

const NUMBER = /^-?[\d.]+(e[+-]?\d+)?$/i;

const SIZE = /^([\d.]+) (B|KiB|MiB|GiB|TiB)$/;
const ORDER = new Intl.Collator("en", { numeric: true });

function rawValue(cell) {
  if (cell.dataset.value !== undefined) return cell.dataset.value;
  return (cell.querySelector("code") || cell).textContent;
}

// What a cell is sorted by: its number, a size in bytes, or the text that is seen.
function sortValue(cell) {
  if (cell.dataset.value !== undefined) return cell.dataset.value;
  const text = (cell.querySelector("summary") || cell).textContent;
  const size = SIZE.exec(text);
  return size ? String(size[1] * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].indexOf(size[2])) : text;
}

function compare(left, right) {
  if (left === "" || right === "") return (left === "") - (right === ""); // what is missing comes last
  if (NUMBER.test(left) && NUMBER.test(right)) return left - right;
  return ORDER.compare(left, right);
}

function sortBy(table, header) {
  const falling = header.getAttribute("aria-sort") !== "descending";
  const column = [...header.parentNode.cells].indexOf(header);
  const rows = [...table.tBodies[0].rows].map((row) => [sortValue(row.cells[column]), row]);
  const sign = falling ? -1 : 1;
  rows.sort(([a], [b]) => (a === "" || b === "" ? compare(a, b) : sign * compare(a, b)));
  for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", falling ? "descending" : "ascending");
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

function filterBy(table, word, count, saving) {
  const wanted = word.trim().toLowerCase();
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = [...row.cells].map((cell) => cell.textContent).join(" ");
    row.hidden = !text.toLowerCase().includes(wanted);
    shown += !row.hidden;
  }
  const part = (every) => (shown < every ? `${shown.toLocaleString("en")} of ` : "") + `${every.toLocaleString("en")} rows`;
  const every = Number(saving.dataset.rows); // the page may hold fewer
  count.textContent = part(table.tBodies[0].rows.length);
  saving.querySelector(".part").textContent = shown < every ? ` (${part(every)})` : "";
}

// A spreadsheet takes a text that begins like a formula for one: such a text gets a quote in front.
function csvCell(text) {
  const safe = /^([\t\r\n]|\s*[=+\-@＝＋－＠])/.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csvOf(table) {
  const head = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.name);
  const shown = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const body = shown.map((row) => [...row.cells].map(rawValue));
  return [head, ...body].map((row) => row.map(csvCell).join(",") + "\n").join("");
}

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copyName(button) {
  const code = button.parentNode.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code); // the user presses Ctrl+C
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

for (const block of document.querySelectorAll(".table")) {
  const table = block.querySelector("table");
  const search = block.querySelector("input");
  const saving = block.querySelector("button.save");
  for (const header of table.tHead.rows[0].cells) {
    header.firstChild.addEventListener("click", () => sortBy(table, header));
  }
  search?.addEventListener("input", () => filterBy(table, search.value, block.querySelector("output"), saving));
  saving.addEventListener("click", () => save(saving.dataset.file, csvOf(table)));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (button) copyName(button);
});
