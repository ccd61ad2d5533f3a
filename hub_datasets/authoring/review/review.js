// The review page: items with texts and images, questions answered by keys or buttons, and boxes.
const root = element.querySelector('.assay-review');
const annotators = props.annotators;
const SVG = 'http://www.w3.org/2000/svg';
const CLICK = 4; // pixels of the screen that the mouse may move in a click
let annotator = new URLSearchParams(location.search).get('annotator') || '';
let view = null;
let draft = {}; // the answers to the item's questions that are not saved yet
let chosenBox = -1;
let busy = false;
const pictures = new Map();

function make(tag, attributes = {}, ...children) {
  const made = document.createElementNS(attributes.xmlns || 'http://www.w3.org/1999/xhtml', tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name !== 'xmlns' && value !== false && value !== null) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function button(text, key, act, attributes = {}) {
  const shown = [...(key ? [make('kbd', {}, key), ' '] : []), ...(key === text ? [] : [text])];
  return make('button', {type: 'button', 'aria-keyshortcuts': key || null, onclick: act, ...attributes}, ...shown);
}

const bar = make('div', {class: 'assay-bar'});
const message = make('div', {class: 'assay-message', role: 'status', 'aria-live': 'polite', hidden: true});
const item = make('div', {class: 'assay-item'});
const help = make('p', {class: 'assay-note'});
root.replaceChildren(bar, message, item, help);

function say(text, isError = false) {
  message.textContent = text;
  message.hidden = !text;
  message.classList.toggle('bad', isError);
}

// One request at a time, so that a key never decides on an item that is not shown yet.
async function call(name, request = {}) {
  if (busy) return null;
  busy = true;
  root.setAttribute('aria-busy', 'true');
  try {
    const answer = await server[name]({annotator, ...request});
    if (!answer || answer.error) throw new Error(answer ? answer.error : 'the server does not answer');
    say('');
    return answer;
  } catch (error) {
    say(`Not saved: ${error.message || error}. Earlier decisions are kept.`, true);
    return null;
  } finally {
    busy = false;
    root.removeAttribute('aria-busy');
  }
}

async function show(name, request) {
  const answer = await call(name, request);
  if (answer) draw(answer);
  return answer;
}

function askName(problem = '') {
  view = null;
  bar.replaceChildren();
  help.textContent = 'Your name is part of the address of this page: a reload or a bookmark continues where you were.';
  const field = make('input', {type: 'text', id: 'annotator', maxlength: 40, autocomplete: 'off', value: annotator});
  const start = async (name) => {
    annotator = name.trim();
    if (!await show('open_item')) return;
    const address = new URL(location.href);
    address.searchParams.set('annotator', annotator);
    history.replaceState(null, '', address);
  };
  const form = make('form', {class: 'assay-name', onsubmit: (event) => { event.preventDefault(); start(field.value); }});
  if (annotators.length) {
    form.append(make('p', {}, 'Who are you?'), ...annotators.map((name) => button(name, '', () => start(name))));
  } else {
    form.append(make('label', {for: 'annotator'}, 'Your name'), field, make('button', {type: 'submit'}, 'Start'));
  }
  item.replaceChildren(form);
  if (problem) say(problem, true);
  if (!annotators.length) field.focus();
}

// An unsaved answer survives a reload of the page.
const draftKey = () => `assay-draft/${annotator}/${view.id}`;
const keepDraft = () => sessionStorage.setItem(draftKey(), JSON.stringify(draft));

function draw(answer) {
  view = answer;
  chosenBox = -1;
  const saved = Object.fromEntries(view.questions.map(({name, value}) => [name, value]));
  draft = {...saved, ...JSON.parse(sessionStorage.getItem(draftKey()) || '{}')};
  bar.replaceChildren(
    make('span', {class: 'assay-progress'}, `${view.done} of ${view.total}`),
    make('progress', {max: view.total, value: view.done, 'aria-label': 'decided'}),
    button(annotator, '', () => askName(), {title: 'Somebody else', class: 'assay-quiet'}),
  );
  item.dataset.id = view.id;
  item.dataset.index = view.index;
  drawItem();
  const keys = new Set(view.questions.flatMap((question) => question.options.map(([, , key]) => key)));
  const hasText = view.questions.some(({kind}) => kind === 'text');
  help.replaceChildren(...[[[...keys].join(' '), 'decide'],
    ...(boxQuestion() ? [['drag', 'draw'], ['click', 'choose a box'], ['Delete', 'remove it']] : []),
    ...(hasText ? [['Enter', 'save'], ['Esc', 'leave a text']] : []), ['← →', 'previous, next'], ['n', 'next undecided'],
    ['u', 'undo'],
  ].map(([key, what]) => make('span', {}, make('kbd', {}, key), ` ${what}`)));
  if (view.finished) say(`All ${view.total} are decided. Thank you! Use the arrows to go through them again.`);
}

const chosen = () => choices().map(({name}) => draft[name]);
const fields = () => view.questions.filter(({needed_for}) => needed_for.some((value) => chosen().includes(value)));
const boxQuestion = () => view.questions.find(({kind}) => kind === 'boxes');

function drawItem() {
  const figures = view.images.map(drawFigure);
  const texts = view.texts.flatMap(([heading, segments]) => [make('h3', {}, heading), make('p', {class: 'assay-text'},
    ...segments.map(([text, mark]) => mark ? make('mark', {class: mark}, text) : text))]);
  const place = `${view.index + 1} / ${view.total} · ${view.decided ? 'decided' : 'not decided yet'}`;
  item.replaceChildren(...figures, make('div', {class: 'assay-side'}, make('p', {class: 'assay-place'}, place), ...texts,
    ...choices().map(drawChoice), drawFields(),
    make('div', {class: 'assay-row'},
      button('Previous', '←', () => openItem(view.index - 1)), button('Next', '→', () => openItem(view.index + 1)),
      button('Next undecided', 'n', openNext), button('Undo', 'u', undo))));
}

function drawChoice(question, number) {
  const buttons = question.options.map(([value, label, key]) => button(label, question === open() ? key : '',
    () => choose(question, value), {'aria-pressed': String(draft[question.name] === value), 'data-decision': value}));
  return make('div', {}, make('p', {class: 'assay-kind'}, question.title),
    make('div', {class: 'assay-choices', role: 'group', 'aria-label': question.title}, ...buttons));
}

// Keys answer the first open question; if all are answered, the last.
const choices = () => view.questions.filter((question) => question.options.length);
const open = () => choices().find(({name}) => !draft[name]) || choices().pop();

function drawFields() {
  const form = make('form', {class: 'assay-fix', onsubmit: (event) => { event.preventDefault(); save(); }});
  for (const question of fields()) {
    if (question.kind === 'boxes') continue;
    form.append(make('label', {for: `field-${question.name}`, class: 'assay-kind'}, question.title));
    const field = make('textarea', {id: `field-${question.name}`, rows: 2});
    field.value = draft[question.name];
    field.addEventListener('input', () => { draft[question.name] = field.value; keepDraft(); });
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') field.blur();
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      save();
    });
    form.append(field);
  }
  if (!form.children.length) return null;
  form.append(make('div', {class: 'assay-row'},
    make('button', {type: 'submit'}, make('kbd', {}, 'Enter'), ' Save')));
  return form;
}

function choose(question, value) {
  const isRepeated = draft[question.name] === value;
  draft[question.name] = value;
  const isOpen = chosen().some((other) => !other);
  const typed = fields().filter(({kind}) => kind !== 'boxes');
  if (!isOpen && (isRepeated || !typed.length)) return save();
  keepDraft();
  drawItem();
  const field = item.querySelector('textarea');
  if (field) field.focus();
}

async function save() {
  const key = draftKey();
  const answer = await call('decide', {id: view.id, answers: draft});
  if (!answer) return;
  sessionStorage.removeItem(key);
  draw(answer);
}

const openItem = (index) => show('open_item', {index: (index + view.total) % view.total});
const openNext = () => show('open_item', {after: view.index});
const undo = async () => {
  sessionStorage.removeItem(draftKey());
  await show('undo');
};

// An image, requested once; the first one of an item has a layer for boxes, in pixels of the image.
function drawFigure(name, place) {
  const image = make('img', {alt: `image ${place + 1} of this item`, draggable: 'false', hidden: !name});
  const note = make('figcaption', {class: 'assay-note'}, place ? name : '');
  const layer = place || !boxQuestion() ? null : makeLayer(image);
  if (name) {
    if (!pictures.has(name)) {
      if (pictures.size > 8) pictures.delete(pictures.keys().next().value);
      pictures.set(name, server.picture({annotator, name}).catch(() => ({error: 'the server does not answer'})));
    }
    pictures.get(name).then((answer) => {
      if (answer.error) pictures.delete(name);
      image.hidden = Boolean(answer.error);
      if (answer.error) note.textContent = answer.error;
      else image.src = answer.src;
    });
  }
  return make('figure', {}, make('div', {class: 'assay-stage'}, image, layer), layer ? boxList() : null, note);
}

function makeLayer(image) {
  const layer = make('svg', {xmlns: SVG, class: 'assay-layer', 'aria-hidden': 'true'});
  let start = null;
  const draftBox = (one, other) => [Math.min(one.x, other.x), Math.min(one.y, other.y), Math.abs(one.x - other.x),
    Math.abs(one.y - other.y)];
  const position = (event) => {
    const area = image.getBoundingClientRect();
    const share = (value, from, length) => Math.min(Math.max((value - from) / length, 0), 1);
    return {x: share(event.clientX, area.left, area.width) * image.naturalWidth,
      y: share(event.clientY, area.top, area.height) * image.naturalHeight};
  };
  const redraw = (unfinished = []) => {
    if (!image.naturalWidth) return;
    layer.setAttribute('viewBox', `0 0 ${image.naturalWidth} ${image.naturalHeight}`);
    layer.replaceChildren(...[...boxes(), ...unfinished].map(([x, y, width, height], number) => make('rect',
      {xmlns: SVG, x, y, width, height, class: number === chosenBox ? 'chosen' : ''})));
  };
  image.addEventListener('load', () => redraw());
  layer.addEventListener('pointerdown', (event) => {
    if (busy || event.button !== 0 || !image.naturalWidth) return;
    event.preventDefault();
    layer.setPointerCapture(event.pointerId);
    start = {...position(event), screen: [event.clientX, event.clientY]};
  });
  layer.addEventListener('pointermove', (event) => { if (start) redraw([draftBox(start, position(event))]); });
  layer.addEventListener('pointercancel', () => { start = null; redraw(); });
  layer.addEventListener('pointerup', (event) => {
    if (!start) return;
    const end = position(event);
    const isClick = Math.hypot(event.clientX - start.screen[0], event.clientY - start.screen[1]) < CLICK;
    if (isClick) chosenBox = smallestAround(end);
    else setBoxes([...boxes(), draftBox(start, end)]);
    start = null;
    drawItem();
  });
  return layer;
}

const boxes = () => draft[boxQuestion().name] || [];

function setBoxes(changed) {
  draft[boxQuestion().name] = changed;
  chosenBox = -1;
  keepDraft();
}

// The smallest box around a point, so that one inside another can be chosen.
function smallestAround({x, y}) {
  const around = boxes().map((box, number) => ({number, box, area: box[2] * box[3]}))
    .filter(({box}) => x >= box[0] && x <= box[0] + box[2] && y >= box[1] && y <= box[1] + box[3])
    .sort((one, other) => one.area - other.area);
  return around.length ? around[0].number : -1;
}

function removeBox(number) {
  setBoxes(boxes().filter((_, other) => other !== number));
  drawItem();
}

function boxList() {
  return make('ul', {class: 'assay-boxes'}, ...boxes().map((box, number) => make('li',
    {'data-box': box.join(' '), class: number === chosenBox ? 'chosen' : ''},
    `x ${Math.round(box[0])}, y ${Math.round(box[1])}, ${Math.round(box[2])} × ${Math.round(box[3])} `,
    button('Delete', '', () => removeBox(number), {'aria-label': `Delete box ${number + 1}`}))));
}

function actionOf(key) {
  const shared = {ArrowLeft: () => openItem(view.index - 1), ArrowRight: () => openItem(view.index + 1), n: openNext, u: undo};
  if (shared[key]) return shared[key];
  const option = open().options.find(([, , own]) => own === key);
  if (option) return () => choose(open(), option[0]);
  if (key === 'Enter' && chosen().every(Boolean)) return save;
  return /^(Delete|Backspace)$/.test(key) && chosenBox >= 0 ? () => removeBox(chosenBox) : null;
}

// A component that is rendered again must not leave a second listener.
if (window.assayKeys) window.assayKeys.abort();
window.assayKeys = new AbortController();
document.addEventListener('keydown', (event) => {
  if (!view || busy || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest('input, textarea, select, [contenteditable], [role=tab]') || !root.offsetParent) return;
  const act = actionOf(event.key);
  if (!act) return;
  event.preventDefault();
  act();
}, {signal: window.assayKeys.signal});

queueMicrotask(async () => {
  if (!annotator) askName();
  else if (!await show('open_item')) askName(message.textContent);
});
