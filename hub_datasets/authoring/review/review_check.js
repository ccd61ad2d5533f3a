// Two images and two captions: is each caption true of its own image, and not of the other?
const KEYS = [['1', 'keep'], ['2', 'drop'], ['e', 'correct a caption'], ['← →', 'previous, next'],
  ['n', 'next undecided'], ['u', 'undo']];
let fields = [];

const keep = () => show('decide', {id: view.id, decision: 'keep', captions: fields.map((field) => field.value)});
const drop = () => show('decide', {id: view.id, decision: 'drop'});

function drawItem() {
  const images = ['first', 'second'].map((which) => make('img', {alt: `the ${which} image`}));
  const problems = images.map(() => make('figcaption', {class: 'assay-note'}));
  fields = view.captions.map((text, number) => {
    const field = make('textarea', {rows: 2, 'aria-label': `caption ${number + 1}`, id: `caption-${number + 1}`});
    field.value = text;
    field.addEventListener('keydown', (event) => { if (event.key === 'Escape') field.blur(); });
    return field;
  });
  const pressed = (decision) => ({'aria-pressed': String(view.decision === decision), 'data-decision': decision});
  item.replaceChildren(
    ...images.map((image, number) => make('figure', {class: 'assay-fix'}, image, problems[number], fields[number])),
    make('div', {class: 'assay-side'}, heading(),
      make('p', {}, `Keep it (${view.kind}) only if each caption is true of the image above it, and of that alone.`),
      make('div', {class: 'assay-choices', role: 'group', 'aria-label': 'decision'},
        button('Keep: both directions hold', '1', keep, pressed('keep')), button('Drop', '2', drop, pressed('drop'))),
      navigation()));
  drawPicture(images[0], problems[0]);
  server.picture({annotator, index: view.index, name: view.second}).then((answer) => {
    if (answer.error) problems[1].textContent = answer.error;
    else images[1].src = answer.src;
  });
}

function onKey(key) {
  if (key === '1') return keep;
  if (key === '2') return drop;
  return key === 'e' ? () => fields[0].focus() : null;
}
