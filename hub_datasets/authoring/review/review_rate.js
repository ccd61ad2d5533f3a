// Proposals: how surprising is it, from 0 to 5, or is it ambiguous?
const KEYS = [['0–5', 'rate'], ['x', 'ambiguous, or cannot be boxed'], ['← →', 'previous, next'],
  ['n', 'next undecided'], ['u', 'undo']];
const LABELS = ['0: not at all', '1', '2', '3', '4', '5: very'];

const rate = (decision) => show('decide', {id: view.id, decision});

function drawItem() {
  const image = make('img', {alt: 'the image of this item'});
  const problem = make('figcaption', {class: 'assay-note'});
  const pressed = (decision) => ({'aria-pressed': String(view.decision === decision), 'data-decision': decision});
  item.replaceChildren(
    make('figure', {}, image, problem),
    make('div', {class: 'assay-side'}, heading(),
      make('p', {class: 'assay-kind'}, `How surprising is this ${view.kind} in the image?`),
      make('p', {class: 'assay-text'}, view.text),
      make('div', {class: 'assay-choices', role: 'group', 'aria-label': 'rating'},
        ...LABELS.map((label, number) => button(label, String(number), () => rate(String(number)), pressed(String(number)))),
        button('Ambiguous, or no box can be drawn', 'x', () => rate('ambiguous'), pressed('ambiguous'))),
      navigation()));
  drawPicture(image, problem);
}

function onKey(key) {
  if (key === 'x') return () => rate('ambiguous');
  return /^[0-5]$/.test(key) ? () => rate(key) : null;
}
