"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(element(id).textContent);
  const tasks = read("tasks-data"), images = read("images-data");
  const form = element("filters"), cards = element("cards"), more = element("more"), count = element("count");
  const AT_ONCE = 30;
  let found = [], shown = 0, turn = 0;

  function option(select, value, text) {
    select.append(new Option(text, value));
  }

  // The cards of a task are compressed until they are first shown.
  async function unpack(task) {
    if (!task.list) {
      const bytes = Uint8Array.from(atob(task.cards), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      task.list = JSON.parse(await new Response(stream).text());
    }
    return task.list;
  }

  // The text of each card, for the search; taken from its HTML when somebody first searches.
  function texts(task) {
    const names = { amp: "&", lt: "<", gt: ">", "#34": '"', "#39": "'" };
    task.texts ??= task.list.map((html) => html.replace(/<[^>]*>/g, " ").replace(/&(amp|lt|gt|#34|#39);/g,
      (_, name) => names[name]).replace(/\s+/g, " ").toLowerCase());
    return task.texts;
  }

  function chosenBy(who) {
    if (who === "every") return () => true;
    if (who === "any") return (row) => row.some((value) => value > 0);
    if (who === "all") return (row) => row.every((value) => value > 0);
    if (who === "none") return (row) => !row.some((value) => value > 0);
    if (who === "disagree") return (row) => row.some((value) => value > 0) && row.some((value) => value < 0);
    return (row) => row[Number(who)] > 0;
  }

  function showMore() {
    const task = tasks[form.elements.task.value], first = cards.childElementCount;
    cards.insertAdjacentHTML("beforeend", found.slice(shown, shown + AT_ONCE).map((n) => task.list[n]).join(""));
    shown += AT_ONCE;
    for (const card of [...cards.children].slice(first)) {
      for (const image of card.querySelectorAll("img")) image.src = images[image.dataset.image];
    }
    more.hidden = shown >= found.length;
  }

  async function update() {
    const mine = ++turn, values = Object.fromEntries(new FormData(form)), task = tasks[values.task];
    await unpack(task);
    if (mine !== turn) return;
    const passes = chosenBy(values.who), category = values.category === "" ? -1 : Number(values.category);
    const words = values.q.toLowerCase().trim().replace(/\s+/g, " ");
    found = task.severity.map((_, n) => n).filter((n) => passes(task.severity[n])
      && (category < 0 || task.in[n].includes(category)) && (!words || texts(task)[n].includes(words)));
    if (values.who in task.models) {
      found.sort((a, b) => task.severity[b][values.who] - task.severity[a][values.who]);
    }
    const format = (number) => number.toLocaleString("en");
    count.textContent = `${format(found.length)} of ${format(task.list.length)} examples, the most confident errors first`;
    cards.replaceChildren();
    shown = 0;
    showMore();
    history.replaceState(null, "", `#${new URLSearchParams(values)}`);
  }

  function openTask() {
    const task = tasks[form.elements.task.value], { who, category } = form.elements;
    const chosen = who.value;
    for (const each of [...who.options].filter((each) => each.dataset.model)) each.remove();
    if (task.models.length > 1) {
      task.models.forEach((name, number) => {
        option(who, number, `${name} errs`);
        who.options[who.options.length - 1].dataset.model = "yes";
      });
    }
    for (const each of who.options) each.hidden = task.models.length < 2 && ["all", "disagree"].includes(each.value);
    who.value = chosen;
    if (who.selectedIndex < 0) who.value = "any";
    category.replaceChildren(new Option("all", ""));
    task.categories.forEach((name, number) => option(category, number, name));
    element("models").textContent = task.models.length > 1 ? task.models.join(" · ") : "";
  }

  tasks.forEach((task, number) => option(form.elements.task, number, task.where));
  form.elements.task.parentElement.hidden = tasks.length < 2;
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.get("task") in tasks) form.elements.task.value = asked.get("task");
  openTask();
  for (const name of ["who", "category", "q"]) {
    if (asked.has(name)) form.elements[name].value = asked.get(name);
  }
  for (const name of ["who", "category"]) {
    if (form.elements[name].selectedIndex < 0) form.elements[name].selectedIndex = 0;
  }
  form.elements.task.addEventListener("change", openTask);
  let waiting;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 150);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", showMore);
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !more.hidden) showMore();
  }, { rootMargin: "1200px" }).observe(more);
  update();
})();
