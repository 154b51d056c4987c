(() => {
  for (const root of document.querySelectorAll(".calibrant")) {
    root.classList.add("scripted");
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("aria-hidden", "true"); // its text repeats the label of its point
    root.append(tip);

    let shown = null;
    const show = (point) => {
      shown = point;
      tip.textContent = point.getAttribute("aria-label").replaceAll("; ", "\n");
      tip.hidden = false;
      const place = (point.querySelector(".at") || point).getBoundingClientRect();
      const box = tip.getBoundingClientRect();
      const left = place.left + place.width / 2 - box.width / 2;
      const above = place.top - box.height - 8;
      tip.style.left = Math.max(4, Math.min(left, document.documentElement.clientWidth - box.width - 4)) + "px";
      const below = Math.min(place.bottom + 8, document.documentElement.clientHeight - box.height - 4);
      tip.style.top = (above < 4 ? Math.max(4, below) : above) + "px";
    };
    const hide = () => { shown = null; tip.hidden = true; };

    for (const set of root.querySelectorAll(".set")) {
      const points = [...set.querySelectorAll(".pt")];
      points.forEach((point, i) => {
        const title = point.querySelector("title");
        point.setAttribute("aria-label", title.textContent);
        point.setAttribute("role", "img");
        title.remove(); // or the browser would show it next to the tip
        point.tabIndex = i ? -1 : 0;
        point.addEventListener("mouseenter", () => show(point));
        point.addEventListener("mouseleave", hide);
        point.addEventListener("focus", () => show(point));
        point.addEventListener("blur", hide);
      });
      set.addEventListener("keydown", (event) => {
        const at = points.indexOf(document.activeElement);
        const moves = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: points.length - 1 };
        if (event.key === "Escape") hide();
        if (at < 0 || !(event.key in moves)) return;
        event.preventDefault();
        const next = points[Math.max(0, Math.min(moves[event.key], points.length - 1))];
        points[at].tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      });
    }
    // Focus may scroll the page: move the tip too.
    addEventListener("scroll", () => { if (shown) show(shown); }, { passive: true, capture: true });

    for (const section of root.querySelectorAll(".sortable")) {
      const list = section.querySelector(".tiles"), tiles = [...list.children];
      const order = section.querySelector("select"), wanted = section.querySelector("input[type=search]");
      const names = new Intl.Collator(undefined, { numeric: true });
      const keys = {
        error: (a, b) => b.dataset.error - a.dataset.error || a.dataset.index - b.dataset.index,
        rows: (a, b) => b.dataset.rows - a.dataset.rows || a.dataset.index - b.dataset.index,
        name: (a, b) => names.compare(a.dataset.name, b.dataset.name),
        index: (a, b) => a.dataset.index - b.dataset.index,
      };
      const output = section.querySelector("output");
      const arrange = () => {
        const part = wanted.value.trim().toLocaleLowerCase();
        for (const tile of tiles) tile.hidden = !tile.dataset.name.toLocaleLowerCase().includes(part);
        list.append(...tiles.sort(keys[order.value]));
        const shown = tiles.filter((tile) => !tile.hidden).length;
        output.textContent = part ? `${shown} of ${tiles.length} shown` : "";
      };
      order.addEventListener("change", arrange);
      wanted.addEventListener("input", arrange);
    }

    for (const section of root.querySelectorAll(".searchable")) {
      const rows = [...section.querySelectorAll("tbody tr")], tiles = [...section.querySelectorAll(".tiles > li")];
      const output = section.querySelector("output"), rest = section.querySelector(".rest");
      section.querySelector("input[type=search]").addEventListener("input", (event) => {
        const part = event.target.value.trim().toLocaleLowerCase();
        const hides = (name) => !name.textContent.toLocaleLowerCase().includes(part);
        for (const row of rows) row.hidden = hides(row.cells[0]);
        for (const tile of tiles) tile.hidden = hides(tile.querySelector("b"));
        const shown = rows.filter((row) => !row.hidden);
        if (part && rest) rest.open = shown.some((row) => rest.contains(row));
        output.textContent = part ? `${shown.length} of ${rows.length} shown` : "";
      });
    }

    for (const button of root.querySelectorAll(".copy")) {
      button.addEventListener("click", () => {
        getSelection().selectAllChildren(button.previousElementSibling);
        if (document.execCommand("copy")) button.textContent = "copied"; // works without a server too
      });
    }

    const dialog = root.querySelector("dialog");
    if (!dialog) continue;
    const parse = (text) => [...text.matchAll(/("(?:[^"]|"")*"|[^,\r\n]*)(,|\r\n|$)/g)].reduce((rows, [, cell, end]) => {
      rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
      if (end === "\r\n") rows.push([]);
      return rows;
    }, [[]]).filter((row) => row.length > 1);
    let rows = null;
    const link = root.querySelector("a[download='class-bins.csv']");
    const three = (text) => (text === "" ? "" : Number(text).toFixed(3));
    const open = (tile) => {
      rows ??= parse(decodeURIComponent(link.href.slice(link.href.indexOf(",") + 1)));
      const at = Object.fromEntries(rows[0].map((name, i) => [name, i]));
      dialog.querySelector("h3").textContent = tile.dataset.name;
      dialog.querySelector("p").textContent = tile.querySelector("small").textContent;
      dialog.querySelector(".large").replaceChildren(tile.querySelector("svg").cloneNode(true));
      const body = dialog.querySelector("tbody");
      body.replaceChildren(...rows.slice(1).filter((row) => row[at.index] === tile.dataset.index).map((row) => {
        const ends = (low, high) => `${three(row[at[low]])} – ${three(row[at[high]])}`;
        const cells = [ends("left", "right"), Number(row[at.count]).toLocaleString("en"), three(row[at.confidence]), three(row[at.accuracy])];
        if ("low" in at) cells.push(ends("low", "high"));
        const line = document.createElement("tr");
        line.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
        return line;
      }));
      dialog.showModal();
    };
    for (const tile of root.querySelectorAll(".tiles > li")) {
      const button = tile.querySelector("button");
      if (button) button.addEventListener("click", () => open(tile));
    }
    dialog.querySelector("button").addEventListener("click", () => dialog.close());
  }
})();
