// Shared by both review pages: the annotator's name, requests to the server, progress, keys, similar images.
// The page's own script defines drawItem(view, isOther), onKey(key) and KEYS.
const root = element.querySelector('.assay-review');
const annotators = props.annotators;
let annotator = new URLSearchParams(location.search).get('annotator') || '';
let view = null;
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
  const shown = key ? [make('kbd', {}, key), ' ', text] : [text];
  return make('button', {type: 'button', 'aria-keyshortcuts': key || null, onclick: act, ...attributes}, ...shown);
}

const bar = make('div', {class: 'assay-bar'});
const message = make('div', {class: 'assay-message', role: 'status', 'aria-live': 'polite', hidden: true});
const item = make('div', {class: 'assay-item'});
const similar = make('section', {class: 'assay-similar', hidden: true});
const help = make('p', {class: 'assay-note'});
root.replaceChildren(bar, message, item, similar, help);

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

const openItem = (index) => show('open_item', {index: (index + view.total) % view.total});
const openNext = () => show('open_item', {after: view.index});
const undo = () => show('undo');

function askName(problem = '') {
  view = null;
  item.replaceChildren();
  bar.replaceChildren();
  help.textContent = 'Your name is part of the address of this page: a reload or a bookmark continues where you were.';
  const field = make('input', {type: 'text', id: 'annotator', maxlength: 40, autocomplete: 'off', value: annotator});
  const start = async (name) => {
    annotator = name.trim();
    const answer = await show('open_item');
    if (!answer) return;
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

function draw(answer) {
  const isOther = !view || view.index !== answer.index;
  view = answer;
  const change = button(annotator, '', () => askName(), {title: 'Somebody else', class: 'assay-quiet'});
  bar.replaceChildren(
    make('span', {class: 'assay-progress'}, `${view.done} of ${view.total}`),
    make('progress', {max: view.total, value: view.done, 'aria-label': 'decided'}),
    change,
  );
  if (isOther) similar.hidden = true;
  item.dataset.id = view.id;
  item.dataset.index = view.index;
  drawItem(view, isOther);
  help.replaceChildren(...KEYS.map(([key, what]) => make('span', {}, make('kbd', {}, key), ` ${what}`)));
  if (view.finished) say(`All ${view.total} are decided. Thank you! Use the arrows to go through them again.`);
}

function navigation() {
  return make('div', {class: 'assay-row'},
    button('Previous', '←', () => openItem(view.index - 1)), button('Next', '→', () => openItem(view.index + 1)),
    button('Next undecided', 'n', openNext), button('Undo', 'u', undo),
    view.has_image ? button('Similar images', 's', () => showSimilar({index: view.index})) : null);
}

function heading() {
  const place = `${view.index + 1} / ${view.total}`;
  return make('p', {class: 'assay-place'}, place, view.decided ? ' · decided' : ' · not decided yet');
}

// The image of an item, requested once; the next one is requested in advance.
function picture(index) {
  if (!pictures.has(index)) {
    if (pictures.size > 8) pictures.delete(pictures.keys().next().value);
    const asked = server.picture({annotator, index}).catch(() => ({error: 'the server does not answer'}));
    pictures.set(index, asked);
    asked.then((answer) => { if (answer.error) pictures.delete(index); });
  }
  return pictures.get(index);
}

async function drawPicture(image, problem) {
  const {index, total} = view;
  const answer = await picture(index);
  if (view.index !== index || !image.isConnected) return;
  if (answer.error) {
    image.hidden = true;
    problem.textContent = answer.error;
    return;
  }
  image.src = answer.src;
  if (index + 1 < total) image.addEventListener('load', () => picture(index + 1), {once: true});
}

async function showSimilar(request) {
  if (!similar.hidden && request.index !== undefined) {
    similar.hidden = true;
    return;
  }
  say('Searching for similar images. The first search embeds all images, which can take a while.');
  const found = await call('similar', request);
  if (!found) return;
  const choose = (name) => (typeof onTile === 'function' ? onTile(name) : showSimilar({name}));
  const tile = ({name}) => button('', '', () => choose(name), {class: 'assay-tile', title: name});
  const tiles = found.images.map((each) => {
    const made = tile(each);
    made.append(make('img', {src: each.src, alt: each.name}),
      make('span', {}, each.name), make('span', {}, each.similarity.toFixed(3)));
    return made;
  });
  similar.replaceChildren(
    make('div', {class: 'assay-row'}, make('img', {src: found.src, alt: found.name, class: 'assay-chosen'}),
      make('p', {}, make('strong', {}, `Most similar to ${found.name}`), make('br'),
        'Found by an image-only model. ',
        typeof onTile === 'function' ? 'Choose the second image.' : 'Choose an image to search by it.'),
      button('Close', 's', () => { similar.hidden = true; })),
    make('div', {class: 'assay-tiles'}, ...tiles));
  if (!tiles.length) similar.append(make('p', {}, 'There is no other image in the folder.'));
  similar.hidden = false;
  similar.scrollIntoView({block: 'nearest', behavior: 'smooth'});
}

const SHARED_KEYS = {
  ArrowLeft: () => openItem(view.index - 1),
  ArrowRight: () => openItem(view.index + 1),
  n: openNext,
  u: undo,
  s: () => view.has_image && showSimilar({index: view.index}),
};

// A component that is rendered again must not leave a second listener.
if (window.assayKeys) window.assayKeys.abort();
window.assayKeys = new AbortController();
document.addEventListener('keydown', (event) => {
  if (!view || busy || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest('input, textarea, select, [contenteditable], [role=tab]') || !root.offsetParent) return;
  const act = SHARED_KEYS[event.key] || onKey(event.key);
  if (!act) return;
  event.preventDefault();
  act();
}, {signal: window.assayKeys.signal});

queueMicrotask(async () => {
  if (!annotator) askName();
  else if (!await show('open_item')) askName(message.textContent);
});
