// Draws the charts of the page, in the colours of the theme; makes their buttons and tables. Needs plotly.js and the
// JSON in #charts, and theme.js before it; talks to nothing else.
(() => {
  "use strict";
  const { label, charts } = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement;
  const FONT = 'system-ui, -apple-system, "Segoe UI", "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif';
  const NARROW_LINE = 8; // where a phone has one name of a legend in a line
  const views = [];

  // ---- colours: "@name" and "@name:opacity" stand for the variables of style.css

  function palette(theme) {
    const before = root.dataset.theme;
    root.dataset.theme = theme;
    const style = getComputedStyle(root);
    const colours = {};
    for (const name of ["paper", "ink", "dim", "line", "grid", "mark", "s1", "s2", "s3", "s4", "s5", "s6", "s7"])
      colours[name] = style.getPropertyValue(`--${name}`).trim();
    root.dataset.theme = before;
    return colours;
  }

  function themed(value, colours) {
    if (Array.isArray(value)) return value.map((item) => themed(item, colours));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, colours)]));
    const match = typeof value === "string" && /^@(\w+)(?::([\d.]+))?$/.exec(value);
    if (!match) return typeof value === "string" ? value.replace(/(\d) us\b/g, "$1 µs").replace("(us)", "(µs)") : value;
    const hex = colours[match[1]];
    if (!match[2]) return hex;
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},${match[2]})`;
  }

  // Fewer ticks and smaller letters for a phone.
  function squeeze(layout) {
    const x = layout.xaxis;
    if (x.tickvals && x.tickvals.length > 5) {
      const kept = (_, i) => i % 2 === 0;
      Object.assign(x, { tickvals: x.tickvals.filter(kept), ticktext: x.ticktext.filter(kept) });
    }
    if (x.type !== "category") x.tickangle = 0;
    layout.margin = { ...layout.margin, l: 44, r: 8 };
    if (layout.legend) layout.legend.font = { size: 11 };
    layout.yaxis.title = { ...layout.yaxis.title, standoff: 4 };
  }

  function dressed(variant, colours, narrow) {
    const { height, ...layout } = themed(variant.layout, colours);
    const data = themed(variant.data, colours);
    if (narrow) squeeze(layout);
    return {
      height: height && narrow ? height + NARROW_LINE * data.filter((trace) => trace.showlegend !== false).length : height,
      data,
      layout: {
        ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
        font: { family: FONT, size: narrow ? 11 : 13, color: colours.ink },
        hoverlabel: { align: "left", bgcolor: colours.paper, bordercolor: colours.line, font: { color: colours.ink, size: 13 } },
        dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      },
    };
  }

  // ---- charts

  function variantOf(view) {
    return view.chart.variants.find((v) => Object.entries(view.choice).every(([name, value]) => v.choice[name] === value));
  }

  function draw(view) {
    const variant = variantOf(view);
    view.missing.hidden = Boolean(variant);
    view.plot.hidden = !variant;
    view.table.hidden = !variant || !variant.data.some((trace) => trace.meta && trace.meta.cells);
    if (!variant) return;
    const { data, layout, height } = dressed(variant, palette(root.dataset.theme), innerWidth < 600);
    view.plot.style.height = height ? `${height}px` : "";
    layout.uirevision = JSON.stringify(Object.keys(variant.choice).filter((n) => n !== "show").map((n) => variant.choice[n]));
    if (layout.yaxis && layout.yaxis.scaleanchor) view.plot.classList.add("square");
    Plotly.react(view.plot, data, layout, { responsive: true, displayModeBar: false, doubleClick: "reset" });
    if (view.table.open) fillTable(view);
  }

  function element(name, properties = {}, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
  }

  function optionGroup(view, name, values) {
    const segments = element("div", { className: "segments" });
    segments.setAttribute("role", "group");
    for (const value of values) {
      const button = element("button", { type: "button", textContent: value });
      button.setAttribute("aria-pressed", String(view.choice[name] === value));
      button.addEventListener("click", () => {
        view.choice[name] = value;
        for (const other of segments.children) other.setAttribute("aria-pressed", String(other === button));
        draw(view);
      });
      segments.append(button);
    }
    return element("div", { className: "group" }, segments);
  }

  function selectGroup(view, name, values) {
    const select = element("select");
    for (const value of values) select.append(element("option", { value, textContent: value }));
    select.addEventListener("change", () => { view.choice[name] = select.value; draw(view); });
    return element("label", { className: "group" }, `${name} `, select);
  }

  function build(chart) {
    const host = document.querySelector(`#${CSS.escape(chart.id)} .chart`);
    if (!host) return;
    const view = {
      chart, choice: Object.fromEntries(Object.entries(chart.options).map(([name, values]) => [name, values[0]])),
      plot: element("div", { className: "plotly-place" }),
      missing: element("p", { className: "skipped", textContent: "Not measured for this choice.", hidden: true }),
      table: element("details", { className: "table-place" }, element("summary", { textContent: "table" }), element("div", { className: "scroll" })),
    };
    const controls = element("div", { className: "controls" });
    for (const [name, values] of Object.entries(chart.options))
      if (name !== "place" && values.length > 1)
        controls.append(values.length > 4 ? selectGroup(view, name, values) : optionGroup(view, name, values));
    const save = element("div", { className: "save" });
    for (const format of ["svg", "png"]) {
      const button = element("button", { type: "button", textContent: format.toUpperCase(), title: `Save this plot as ${format.toUpperCase()}` });
      button.dataset.save = format;
      button.addEventListener("click", () => savePlot(view, format));
      save.append(button);
    }
    controls.append(save);
    view.table.addEventListener("toggle", () => view.table.open && fillTable(view));
    view.plot.setAttribute("role", "img");
    view.plot.setAttribute("aria-label", chart.title);
    host.append(controls, view.plot, view.missing, view.table);
    views.push(view);
    draw(view);
    for (let fold = host.closest("details"); fold; fold = fold.parentElement.closest("details"))
      fold.addEventListener("toggle", () => draw(view)); // what is folded has no width
  }

  // A saved picture is light, has a title, and says what it was measured on.
  function picture(chart, variant) {
    const colours = palette("light");
    const { data, layout } = dressed(variant, colours, false);
    const words = Object.keys(chart.options).map((name) => variant.choice[name]).filter(Boolean);
    const choice = words.join(", ");
    Object.assign(layout, {
      paper_bgcolor: colours.paper, plot_bgcolor: colours.paper,
      margin: { ...layout.margin, t: 120, b: 84 },
      title: { text: `${chart.title}<br><sub>${[choice, label].filter(Boolean).join(" | ")}</sub>`, x: 0.02, xanchor: "left", yref: "container", y: 0.95 },
    });
    const filename = ["nearfield", chart.id, ...words].join("-").replace(/[^\w.-]+/g, "_");
    return { figure: { data, layout }, filename, size: { width: 1200, height: 675 } };
  }

  function savePlot(view, format) {
    const variant = variantOf(view);
    if (!variant) return;
    const { figure, filename, size } = picture(view.chart, variant);
    Plotly.downloadImage(figure, { format, filename, ...size, scale: format === "png" ? 2 : 1 });
  }

  // For `report --format svg`: [file name, SVG] of every choice of every plot.
  window.nearfieldPictures = async () => {
    const drawn = [];
    for (const chart of charts)
      for (const variant of chart.variants) {
        const { figure, filename, size } = picture(chart, variant);
        const url = await Plotly.toImage(figure, { format: "svg", ...size });
        drawn.push([`${filename}.svg`, decodeURIComponent(url.slice(url.indexOf(",") + 1))]);
      }
    return drawn;
  };

  // ---- tables

  function fillTable(view) {
    const traces = variantOf(view).data.filter((trace) => trace.meta && trace.meta.cells);
    const rows = new Map();
    traces.forEach((trace, column) => trace.meta.x.forEach((x, i) => {
      if (!rows.has(x)) rows.set(x, { at: trace.x[i], cells: [] });
      rows.get(x).cells[column] = trace.meta.cells[i];
    }));
    const sorted = [...rows].sort(([, a], [, b]) => (typeof a.at === "number" ? a.at - b.at : 0));
    const head = element("tr", {}, element("th"), ...traces.map((t) => element("th", { textContent: t.name })));
    const body = sorted.map(([x, row]) => element("tr", {}, element("td", { textContent: x }),
      ...traces.map((_, i) => element("td", { textContent: (row.cells[i] || "").replace(/(\d) us\b/g, "$1 µs") }))));
    view.table.lastElementChild.replaceChildren(
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  }

  // ---- the page

  charts.forEach(build);
  document.addEventListener("themechange", () => views.forEach(draw));
  const place = document.getElementById("place");
  if (place) place.addEventListener("change", () => {
    for (const view of views) if ("place" in view.choice) { view.choice.place = place.value; draw(view); }
  });
  let wasNarrow = innerWidth < 600;
  addEventListener("resize", () => {
    if ((innerWidth < 600) !== wasNarrow) views.forEach(draw);
    wasNarrow = innerWidth < 600;
  });
  let open;
  const folded = [...document.querySelectorAll("#findings details")];
  addEventListener("beforeprint", () => {
    open = folded.map((details) => details.open);
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => folded.forEach((details, i) => { details.open = open[i]; }));
  root.dataset.ready = "true";
})();
