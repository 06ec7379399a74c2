// The table of an image's functions, and what chooses from it.
{
  const rows = data.rows;

  const orders = {
    name: (a, b) => textOrder(rows.name[a], rows.name[b]),
    state: (a, b) => rows.state[a] - rows.state[b],
    source: (a, b) => textOrder(data.sources[rows.source[a]], data.sources[rows.source[b]]),
    section: (a, b) => textOrder(data.sections[rows.section[a]], data.sections[rows.section[b]]),
    // Hexadecimal without leading zeroes: the longer number is the greater one.
    place: (a, b) =>
      rows.place[a].length - rows.place[b].length || textOrder(rows.place[a], rows.place[b]),
    size: (a, b) => rows.size[a] - rows.size[b],
  };

  function cells(at) {
    const state = data.states[rows.state[at]];
    return [
      ["name", rows.name[at]],
      ["state " + state.kind, state.mark + " " + state.text],
      ["source", data.sources[rows.source[at]]],
      ["sect", data.sections[rows.section[at]]],
      ["place", "0x" + rows.place[at]],
      ["size", rows.size[at]],
    ];
  }

  const show = longTable({
    count: rows.name.length,
    cells,
    compare: (key, a, b) => orders[key](a, b),
    key: "place",
    isDown: () => false,
  });

  function choose() {
    const looked = words(by("search").value);
    const [state, group, section] = ["state", "group", "section"].map((id) => by(id).value);
    const order = [];
    for (let i = 0; i < rows.name.length; i++) {
      if (state !== "" && rows.state[i] !== Number(state)) continue;
      if (group !== "" && data.groupOf[rows.source[i]] !== Number(group)) continue;
      if (section !== "" && rows.section[i] !== Number(section)) continue;
      if (looked.length) {
        const where = (rows.name[i] + " " + data.sources[rows.source[i]]).toLowerCase();
        if (!looked.every((word) => where.includes(word))) continue;
      }
      order.push(i);
    }
    show(order);
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
