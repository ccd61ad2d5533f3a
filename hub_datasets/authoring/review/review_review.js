// Candidates: one decision for each item, by the keys 1 to 5.
const KEYS = [['1–5', 'decide'], ['← →', 'previous, next'], ['n', 'next undecided'], ['u', 'undo'], ['s', 'similar images']];
const DRAFT = 'assay-draft';
let field = null;

function segments(parts, className) {
  return make('p', {class: 'assay-text'}, ...parts.map(([text, isChanged]) =>
    isChanged ? make('mark', {class: className}, text) : text));
}

function choose(name) {
  if (name === 'fix') return openFix();
  return show('decide', {id: view.id, decision: name});
}

function drawItem() {
  const image = make('img', {alt: 'the image of this item'});
  const problem = make('figcaption', {class: 'assay-note'}, view.has_image ? '' : 'This item has no image.');
  const meaning = view.is_positive ? 'hard positive: should be true of the image' : 'hard negative: should not be true of the image';
  const choices = view.choices.map(([name, label], number) =>
    button(label, String(number + 1), () => choose(name), {'aria-pressed': String(view.decision === name), 'data-decision': name}));
  field = make('form', {class: 'assay-fix', hidden: true, onsubmit: saveFix});
  item.replaceChildren(
    make('figure', {}, view.has_image ? image : null, problem),
    make('div', {class: 'assay-side'}, heading(),
      make('p', {class: 'assay-kind'}, make('code', {}, view.kind), ` ${meaning}`),
      make('h3', {}, 'Caption'), segments(view.caption, 'old'),
      make('h3', {}, view.decision === 'fix' ? 'Candidate, as you fixed it' : 'Candidate'), segments(view.candidate, 'new'),
      make('div', {class: 'assay-choices', role: 'group', 'aria-label': 'decision'}, ...choices), field, navigation()));
  if (view.has_image) drawPicture(image, problem);
  if (readDraft() !== null) openFix();
}

// An unsaved text survives a reload of the page.
const draftKey = () => `${DRAFT}/${annotator}/${view.id}`;
const readDraft = () => sessionStorage.getItem(draftKey());

function openFix() {
  const draft = readDraft();
  const input = make('textarea', {id: 'fix', rows: 2, 'aria-label': 'the corrected candidate'});
  input.value = draft === null ? view.text : draft;
  input.addEventListener('input', () => sessionStorage.setItem(draftKey(), input.value));
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') closeFix();
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) saveFix(event);
  });
  field.replaceChildren(input, make('div', {class: 'assay-row'},
    make('button', {type: 'submit'}, make('kbd', {}, 'Enter'), ' Save'), button('Cancel', 'Esc', closeFix)));
  field.hidden = false;
  input.focus();
}

function closeFix() {
  sessionStorage.removeItem(draftKey());
  field.hidden = true;
  field.replaceChildren();
}

async function saveFix(event) {
  event.preventDefault();
  const key = draftKey();
  const answer = await call('decide', {id: view.id, decision: 'fix', text: field.querySelector('textarea').value});
  if (!answer) return;
  sessionStorage.removeItem(key);
  draw(answer);
}

function onKey(key) {
  const choice = /^[1-9]$/.test(key) && view.choices[Number(key) - 1];
  return choice ? () => choose(choice[0]) : null;
}
