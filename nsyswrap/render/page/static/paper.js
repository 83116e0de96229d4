"use strict";

// On paper the page is light.

addEventListener("beforeprint", () => document.documentElement.classList.add("printed"));
addEventListener("afterprint", () => document.documentElement.classList.remove("printed"));
