"use strict";
// What the page of an image and that of a trace have in common: their data, and a long table.
// Names come from the file and go into the page as text only, never as markup.
const by = (id) => document.getElementById(id);
const data = JSON.parse(by("data").textContent);
const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

function grouped(number) {
  return number.toLocaleString("en");
}

function textOrder(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// A table of `count` rows, of which only those in view are in the page. `cells(at)` are the classes and texts of
// row `at`, `compare(key, a, b)` compares two rows, and `isDown(key)` says whether a column is first sorted downwards.
// Returns the function that shows the rows with these numbers.
function longTable({ count, cells, compare, key, isDown }) {
  const HEIGHT = 28, MORE = 15;
  const view = by("rows");
  let order = [];
  let sort = { key, down: isDown(key) };
  let drawn = "";

  function arrange() {
    const sign = sort.down ? -1 : 1;
    order.sort((a, b) => sign * compare(sort.key, a, b) || a - b);
    by("count").textContent = grouped(order.length) + " of " + grouped(count);
    view.scrollTop = 0;
    drawn = "";
    draw();
  }

  function space(rows) {
    const row = document.createElement("tr");
    row.className = "space";
    row.setAttribute("aria-hidden", "true");
    const td = row.insertCell();
    td.colSpan = 6;
    td.style.height = rows * HEIGHT + "px";
    return row;
  }

  function draw() {
    const first = Math.max(0, Math.floor(view.scrollTop / HEIGHT) - MORE);
    const last = Math.min(order.length, Math.ceil((view.scrollTop + view.clientHeight) / HEIGHT) + MORE);
    if (drawn === first + "," + last) return;
    drawn = first + "," + last;
    const fresh = document.createDocumentFragment();
    fresh.append(space(first));
    for (let at = first; at < last; at++) {
      const row = document.createElement("tr");
      row.setAttribute("aria-rowindex", String(at + 2));
      for (const [kind, value] of cells(order[at])) {
        const td = row.insertCell();
        td.className = kind;
        td.textContent = value;
        td.title = value;
      }
      fresh.append(row);
    }
    fresh.append(space(order.length - last));
    by("body").replaceChildren(fresh);
    view.querySelector("table").setAttribute("aria-rowcount", String(order.length + 1));
  }

  view.addEventListener("scroll", draw, { passive: true });
  window.addEventListener("resize", draw);
  view.querySelectorAll("th button").forEach((button) => {
    button.addEventListener("click", () => {
      const chosen = button.dataset.key;
      sort = { key: chosen, down: sort.key === chosen ? !sort.down : isDown(chosen) };
      view.querySelectorAll("th").forEach((th) => th.setAttribute("aria-sort", "none"));
      button.parentElement.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      arrange();
    });
  });

  return (chosen) => {
    order = chosen;
    arrange();
  };
}
