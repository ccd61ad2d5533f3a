// Images: what is surprising in them, an object or a relation, as many captions as there are; or nothing.
const KEYS = [['o', 'object'], ['r', 'relation'], ['0', 'nothing surprising'], ['← →', 'previous, next'],
  ['n', 'next undecided'], ['u', 'undo']];
const MEANING = {object: 'a surprising object: out of place here, or very uncommon',
  relation: 'a surprising relation: a rare subject, verb and object'};
let field = null;

function drawItem() {
  const image = make('img', {alt: 'the image of this item'});
  const problem = make('figcaption', {class: 'assay-note'});
  const spots = view.spots.map(({kind, text, by}) => make('li', {}, text ? `${kind}: ${text}` : 'nothing surprising',
    by === annotator ? '' : ` (${by})`));
  field = make('form', {class: 'assay-fix', hidden: true});
  item.replaceChildren(
    make('figure', {}, image, problem),
    make('div', {class: 'assay-side'}, heading(),
      make('p', {}, 'What is surprising in this image? Look at small and unimportant things, too.'),
      make('div', {class: 'assay-choices', role: 'group', 'aria-label': 'decision'},
        button('A surprising object', 'o', () => openField('object'), {'data-decision': 'object'}),
        button('A surprising relation', 'r', () => openField('relation'), {'data-decision': 'relation'}),
        button('Nothing', '0', () => show('decide', {id: view.id, decision: 'nothing'}),
          {'data-decision': 'nothing', disabled: view.spots.length > 0})),
      field, make('ul', {class: 'assay-boxes'}, ...spots), navigation()));
  drawPicture(image, problem);
}

function openField(kind) {
  const input = make('textarea', {id: 'spot', rows: 2, 'aria-label': MEANING[kind]});
  const save = async (event) => {
    event.preventDefault();
    await show('decide', {id: view.id, decision: kind, text: input.value});
  };
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') field.hidden = true;
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) save(event);
  });
  field.onsubmit = save;
  field.replaceChildren(make('p', {class: 'assay-note'}, MEANING[kind]), input,
    make('div', {class: 'assay-row'}, make('button', {type: 'submit'}, make('kbd', {}, 'Enter'), ' Save')));
  field.hidden = false;
  input.focus();
}

function onKey(key) {
  if (key === 'o') return () => openField('object');
  if (key === 'r') return () => openField('relation');
  return key === '0' && !view.spots.length ? () => show('decide', {id: view.id, decision: 'nothing'}) : null;
}
