// Two false captions of one true caption: which one makes more sense, and which one is better English?
const KEYS = [['a b', 'A or B is better'], ['t', 'tie'], ['← →', 'previous, next'], ['n', 'next undecided'], ['u', 'undo']];
const CHOICES = [['A', 'a'], ['B', 'b'], ['tie', 't']];

const answer = (question, decision) => show('decide', {id: view.id, question, decision});
// Keys answer the first open question; an item that is decided is changed with the buttons.
const open = () => view.answers.indexOf('');

function drawItem() {
  const lines = [['A', view.a], ['B', view.b]].map(([name, text]) =>
    make('p', {class: 'assay-text'}, make('strong', {}, `${name}: `), text));
  const questions = view.questions.map((text, number) => make('div', {},
    make('p', {class: 'assay-kind'}, text),
    make('div', {class: 'assay-choices', role: 'group', 'aria-label': text}, ...CHOICES.map(([decision, key]) =>
      button(decision, number === open() ? key : '', () => answer(number, decision),
        {'aria-pressed': String(view.answers[number] === decision), 'data-decision': decision})))));
  item.replaceChildren(make('div', {class: 'assay-side'}, heading(),
    make('p', {class: 'assay-note'}, `Two changed versions of “${view.caption}”. Judge each as a sentence of its own.`),
    ...lines, ...questions, navigation()));
}

function onKey(key) {
  const choice = CHOICES.find(([, each]) => each === key);
  return choice && open() >= 0 ? () => answer(open(), choice[0]) : null;
}
