// Boxes for phrases, in pixels of the image: an SVG layer over the image with the image's units.
const KEYS = [['drag', 'draw'], ['click', 'choose a box'], ['Delete', 'remove it'], ['1–9', 'phrase'],
  ['a', 'not in the image'], ['← →', 'previous, next'], ['n', 'next undecided'], ['u', 'undo'], ['s', 'similar images']];
const SVG = 'http://www.w3.org/2000/svg';
const COLOURS = ['#e11d48', '#2563eb', '#16a34a', '#d97706', '#9333ea', '#0891b2', '#be185d', '#4d7c0f', '#b45309'];
const CLICK = 4; // pixels of the screen that the mouse may move in a click
let phrase = 0;
let chosen = -1;
let image = null;
let layer = null;
let drawing = null;

const colour = (number) => COLOURS[number % COLOURS.length];
const boxes = () => view.phrases[phrase].boxes;

function keep(kept, absent = false) {
  chosen = -1;
  return show('decide', {id: view.id, phrase, boxes: kept, absent});
}

const remove = (number) => keep(boxes().filter((_, other) => other !== number));
const setAbsent = () => keep([], !view.phrases[phrase].absent);

function drawItem(_, isOther) {
  if (isOther) {
    phrase = Math.max(0, view.phrases.findIndex((each) => !each.done));
    chosen = -1;
    image = make('img', {alt: 'the image of this item', draggable: 'false'});
    layer = make('svg', {xmlns: SVG, class: 'assay-layer', 'aria-hidden': 'true'});
    image.addEventListener('load', drawBoxes);
    layer.addEventListener('pointerdown', startBox);
    layer.addEventListener('pointermove', dragBox);
    layer.addEventListener('pointerup', endBox);
    layer.addEventListener('pointercancel', () => { drawing = null; drawBoxes(); });
  }
  const problem = make('figcaption', {class: 'assay-note'});
  const stage = make('div', {class: 'assay-stage'}, image, layer);
  item.replaceChildren(make('figure', {}, stage, problem), side());
  if (isOther) drawPicture(image, problem);
  drawBoxes();
}

function side() {
  const {text, start, end} = view.phrases[phrase];
  const letters = [...view.caption]; // start and end count characters, of which some are two units of a string
  const [head, tail] = [letters.slice(0, start).join(''), letters.slice(end).join('')];
  const phrases = view.phrases.map((each, number) => {
    const state = each.absent ? 'not in the image' : `${each.boxes.length} ${each.boxes.length === 1 ? 'box' : 'boxes'}`;
    return button(`${each.text} · ${each.done ? state : 'nothing yet'}`, number < 9 ? String(number + 1) : '',
      () => choosePhrase(number),
      {'aria-pressed': String(number === phrase), style: `--assay-colour: ${colour(number)}`, class: 'assay-phrase'});
  });
  const list = boxes().map((box, number) => make('li', {'data-box': box.join(' '), class: number === chosen ? 'chosen' : ''},
    `x ${box[0]}, y ${box[1]}, ${box[2]} × ${box[3]} `,
    button('Delete', '', () => remove(number), {'aria-label': `Delete box ${number + 1}`})));
  const absent = view.phrases[phrase].absent;
  return make('div', {class: 'assay-side'}, heading(), make('h3', {}, 'Caption'),
    make('p', {class: 'assay-text'}, head, make('mark', {class: 'new'}, text), tail),
    make('h3', {}, 'Phrases'), make('div', {class: 'assay-choices', role: 'group', 'aria-label': 'phrase'}, ...phrases),
    make('h3', {}, `Boxes of “${text}”`), make('ul', {class: 'assay-boxes'}, ...list),
    make('div', {class: 'assay-row'}, button('Not in the image', 'a', setAbsent,
      {'aria-pressed': String(absent), disabled: boxes().length > 0})), navigation());
}

function choosePhrase(number) {
  phrase = number;
  chosen = -1;
  drawItem(view, false);
}

// The position of the mouse in pixels of the image, clipped to it.
function place(event) {
  const shown = image.getBoundingClientRect();
  const inside = (value, most) => Math.min(Math.max(value, 0), most);
  return {
    x: inside((event.clientX - shown.left) / shown.width * image.naturalWidth, image.naturalWidth),
    y: inside((event.clientY - shown.top) / shown.height * image.naturalHeight, image.naturalHeight),
  };
}

function startBox(event) {
  if (busy || event.button !== 0 || !image.naturalWidth) return;
  event.preventDefault();
  layer.setPointerCapture(event.pointerId);
  drawing = {from: place(event), to: place(event), screen: [event.clientX, event.clientY]};
}

function dragBox(event) {
  if (!drawing) return;
  drawing.to = place(event);
  drawBoxes();
}

function endBox(event) {
  if (!drawing) return;
  const {from, screen} = drawing;
  const to = place(event);
  drawing = null;
  if (Math.hypot(event.clientX - screen[0], event.clientY - screen[1]) < CLICK) {
    chooseBox(to);
    return;
  }
  drawBoxes();
  keep([...boxes(), [Math.min(from.x, to.x), Math.min(from.y, to.y), Math.abs(to.x - from.x), Math.abs(to.y - from.y)]]);
}

// The smallest box around a point, so that one inside another can be chosen.
function chooseBox({x, y}) {
  const around = boxes().map((box, number) => ({number, box}))
    .filter(({box: [left, top, width, height]}) => x >= left && x <= left + width && y >= top && y <= top + height)
    .sort((one, other) => one.box[2] * one.box[3] - other.box[2] * other.box[3]);
  chosen = around.length ? around[0].number : -1;
  drawItem(view, false);
}

function rectangle([x, y, width, height], number, className) {
  return make('rect', {xmlns: SVG, x, y, width, height, class: className, style: `--assay-colour: ${colour(number)}`});
}

function drawBoxes() {
  if (!image.naturalWidth) return;
  layer.setAttribute('viewBox', `0 0 ${image.naturalWidth} ${image.naturalHeight}`);
  const others = view.phrases.flatMap((each, number) =>
    number === phrase ? [] : each.boxes.map((box) => rectangle(box, number, 'other')));
  const own = boxes().map((box, number) => rectangle(box, phrase, number === chosen ? 'own chosen' : 'own'));
  layer.replaceChildren(...others, ...own);
  if (drawing) {
    const {from, to} = drawing;
    const box = [Math.min(from.x, to.x), Math.min(from.y, to.y), Math.abs(to.x - from.x), Math.abs(to.y - from.y)];
    layer.append(rectangle(box, phrase, 'own'));
  }
}

function onKey(key) {
  if (key === 'a') return boxes().length ? null : setAbsent;
  if (key === 'Delete' || key === 'Backspace') return chosen >= 0 ? () => remove(chosen) : null;
  const number = /^[1-9]$/.test(key) ? Number(key) - 1 : -1;
  return view.phrases[number] ? () => choosePhrase(number) : null;
}
