"use strict";
// Names come from the file and go into the page as text only, never as markup.
{
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.rows;
  const HEIGHT = 28;
  const MORE = 15;
  const by = (id) => document.getElementById(id);
  const view = by("rows");
  const body = by("body");
  let order = [];
  let sort = { key: "place", down: false };
  let drawn = "";

  const compare = {
    name: (a, b) => text(rows.name[a], rows.name[b]),
    state: (a, b) => rows.state[a] - rows.state[b],
    source: (a, b) => text(data.sources[rows.source[a]], data.sources[rows.source[b]]),
    section: (a, b) => text(data.sections[rows.section[a]], data.sections[rows.section[b]]),
    // Hexadecimal without leading zeroes: the longer number is the greater one.
    place: (a, b) =>
      rows.place[a].length - rows.place[b].length || text(rows.place[a], rows.place[b]),
    size: (a, b) => rows.size[a] - rows.size[b],
  };

  function text(a, b) {
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function choose() {
    const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [state, group, section] = ["state", "group", "section"].map((id) => by(id).value);
    order = [];
    for (let i = 0; i < rows.name.length; i++) {
      if (state !== "" && rows.state[i] !== Number(state)) continue;
      if (group !== "" && data.groupOf[rows.source[i]] !== Number(group)) continue;
      if (section !== "" && rows.section[i] !== Number(section)) continue;
      if (words.length) {
        const where = (rows.name[i] + " " + data.sources[rows.source[i]]).toLowerCase();
        if (!words.every((word) => where.includes(word))) continue;
      }
      order.push(i);
    }
    arrange();
  }

  function arrange() {
    const down = sort.down ? -1 : 1;
    order.sort((a, b) => down * compare[sort.key](a, b) || a - b);
    by("count").textContent =
      order.length.toLocaleString("en") + " of " + rows.name.length.toLocaleString("en");
    view.scrollTop = 0;
    drawn = "";
    draw();
  }

  function cell(row, kind, value) {
    const td = row.insertCell();
    td.className = kind;
    td.textContent = value;
    td.title = value;
    return td;
  }

  function space(count) {
    const row = document.createElement("tr");
    row.className = "space";
    row.setAttribute("aria-hidden", "true");
    const td = row.insertCell();
    td.colSpan = 6;
    td.style.height = count * HEIGHT + "px";
    return row;
  }

  // Only the rows in view are in the page.
  function draw() {
    const first = Math.max(0, Math.floor(view.scrollTop / HEIGHT) - MORE);
    const last = Math.min(
      order.length,
      Math.ceil((view.scrollTop + view.clientHeight) / HEIGHT) + MORE
    );
    if (drawn === first + "," + last) return;
    drawn = first + "," + last;
    const fresh = document.createDocumentFragment();
    fresh.append(space(first));
    for (let at = first; at < last; at++) {
      const i = order[at];
      const row = document.createElement("tr");
      row.setAttribute("aria-rowindex", String(at + 2));
      const state = data.states[rows.state[i]];
      cell(row, "name", rows.name[i]);
      cell(row, "state " + state.kind, state.mark + " " + state.text);
      cell(row, "source", data.sources[rows.source[i]]);
      cell(row, "sect", data.sections[rows.section[i]]);
      cell(row, "place", "0x" + rows.place[i]);
      cell(row, "size", rows.size[i]);
      fresh.append(row);
    }
    fresh.append(space(order.length - last));
    body.replaceChildren(fresh);
    view.querySelector("table").setAttribute("aria-rowcount", String(order.length + 1));
  }

  function fill(id, names) {
    names.forEach((name, at) => {
      const option = document.createElement("option");
      option.value = String(at);
      option.textContent = name;
      by(id).append(option);
    });
  }

  fill("state", data.states.map((state) => state.text));
  fill("group", data.groups);
  fill("section", data.sections);
  by("search").addEventListener("input", choose);
  ["state", "group", "section"].forEach((id) => by(id).addEventListener("change", choose));
  by("reset").addEventListener("click", () => setTimeout(choose));
  view.addEventListener("scroll", draw, { passive: true });
  window.addEventListener("resize", draw);
  view.querySelectorAll("th button").forEach((button) => {
    button.addEventListener("click", () => {
      const key = button.dataset.key;
      sort = { key, down: sort.key === key && !sort.down };
      view.querySelectorAll("th").forEach((th) => th.setAttribute("aria-sort", "none"));
      const now = sort.down ? "descending" : "ascending";
      button.parentElement.setAttribute("aria-sort", now);
      arrange();
    });
  });
  document.querySelectorAll("a[data-filter]").forEach((link) => {
    link.addEventListener("click", () => {
      ["state", "group", "section"].forEach((id) => (by(id).value = ""));
      by("search").value = "";
      by(link.dataset.filter).value = link.dataset.value;
      choose();
    });
  });
  choose();
}
