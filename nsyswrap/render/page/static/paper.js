"use strict";

// On paper the page is light, and its tables are open.

let opened = [];
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printed");
  opened = [...document.querySelectorAll("details.numbers:not([open])")];
  opened.forEach((numbers) => (numbers.open = true));
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printed");
  opened.forEach((numbers) => (numbers.open = false));
});
