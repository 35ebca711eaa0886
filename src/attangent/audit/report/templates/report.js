(() => {
  "use strict";
  const form = document.querySelector("form.filters");
  if (!form) return; // a run without findings
  const status = document.getElementById("shown");
  const tiles = [...document.querySelectorAll(".totals a")];
  const claims = [...document.querySelectorAll("tr[data-claim]")].map((row) => {
    const article = document.getElementById(row.dataset.claim);
    return { row, article, ...row.dataset, text: row.dataset.text.toLowerCase() };
  });
  const folds = claims.map(({ article }) => article.querySelector("details"));

  const wanted = () => Object.fromEntries(new FormData(form));

  function apply() {
    const { q, paper, nature, verdict } = wanted();
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const claim of claims) {
      const fits =
        (!paper || claim.paper === paper) &&
        (!nature || claim.nature === nature) &&
        (!verdict || claim.verdict === verdict) &&
        words.every((word) => claim.text.includes(word));
      claim.row.hidden = claim.article.hidden = !fits;
      shown += fits;
    }
    const filtered = Boolean(words.length || nature || verdict);
    for (const section of document.querySelectorAll("section.paper")) {
      section.hidden = !section.querySelector("article:not([hidden])");
      for (const part of section.querySelectorAll(".opening, .dependence")) part.hidden = filtered;
    }
    for (const tile of tiles) {
      if (tile.dataset.verdict === verdict) tile.setAttribute("aria-current", "true");
      else tile.removeAttribute("aria-current");
    }
    status.textContent = `${shown} of ${claims.length} claim${claims.length === 1 ? "" : "s"} shown`;
  }

  function remember() {
    const set = Object.entries(wanted()).filter(([, value]) => value);
    history.replaceState(null, "", set.length ? `#filter:${new URLSearchParams(set)}` : "#");
  }

  function restore(text) {
    const values = new URLSearchParams(text);
    for (const name of ["q", "paper", "nature", "verdict"]) {
      const control = form.elements[name];
      control.value = values.get(name) || "";
      if (control.value !== (values.get(name) || "")) control.value = "";
    }
    apply();
  }

  function show(claim) {
    if (claim.article.hidden) restore("");
    const details = claim.article.querySelector("details");
    details.open = true;
    claim.article.scrollIntoView();
    details.querySelector("summary").focus({ preventScroll: true });
  }

  function follow(hash) {
    let name = hash.slice(1);
    try {
      name = decodeURIComponent(name);
    } catch {
      return;
    }
    if (name.startsWith("filter:")) {
      restore(hash.slice("#filter:".length));
      document.getElementById("claims").scrollIntoView();
    }
    const section = document.getElementById(name);
    if (section?.matches("section.paper[hidden]")) {
      restore("");
      section.scrollIntoView();
    }
    const claim = claims.find((one) => one.article.id === name);
    if (claim) show(claim);
  }

  function update() {
    apply();
    remember();
  }

  function toggle(tile) {
    const pressed = tile.hasAttribute("aria-current");
    form.elements.verdict.value = pressed ? "" : tile.dataset.verdict;
    update();
    if (!pressed) document.getElementById("claims").scrollIntoView();
  }

  async function copy(button) {
    const command = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command);
      button.textContent = "Selected";
    }
    document.getElementById("said").textContent = `${button.textContent}: ${command.textContent}`;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const button = event.target.closest("button.copy");
    if (tiles.includes(link)) {
      event.preventDefault();
      toggle(link);
    } else if (link) {
      follow(link.hash); // the address may be the same as before
    }
    if (button) copy(button);
  });

  for (const button of document.querySelectorAll("button.copy")) button.hidden = false;
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", update);
  form.addEventListener("change", update);
  form.addEventListener("reset", (event) => { event.preventDefault(); restore(""); remember(); });
  const setAll = (open) => folds.forEach((fold) => { fold.open = open; });
  document.getElementById("unfold").addEventListener("click", () => setAll(true));
  document.getElementById("fold").addEventListener("click", () => setAll(false));

  let before = [];
  addEventListener("beforeprint", () => { before = folds.map((fold) => fold.open); setAll(true); });
  addEventListener("afterprint", () => folds.forEach((fold, place) => { fold.open = before[place]; }));
  addEventListener("hashchange", () => follow(location.hash));

  setAll(false);
  apply();
  follow(location.hash);
})();
