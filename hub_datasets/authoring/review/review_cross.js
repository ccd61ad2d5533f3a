// Two images: find a second one, and write a caption that is true of it and not of the first.
const KEYS = [['s', 'similar images'], ['c', 'caption'], ['1 2', 'tick'], ['Enter', 'save'], ['0', 'no image fits'],
  ['← →', 'previous, next'], ['n', 'next undecided'], ['u', 'undo']];
let second = '';
let caption = null;
let ticks = [];
let right = null;

function drawItem() {
  second = view.found.name;
  const image = make('img', {alt: 'the first image'});
  const problem = make('figcaption', {class: 'assay-note'}, 'the first image');
  right = make('figure', {class: 'assay-second'});
  caption = make('textarea', {id: 'caption', rows: 2, 'aria-label': 'a caption of the second image'});
  caption.value = view.found.text;
  caption.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') caption.blur();
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) save(event);
  });
  ticks = ['The first caption is not true of the second image', 'The second caption is not true of the first image']
    .map((text, number) => {
      const box = make('input', {type: 'checkbox', id: `tick-${number + 1}`});
      box.checked = view.decision === 'pair';
      return {box, label: make('label', {class: 'assay-row'}, box, make('kbd', {}, String(number + 1)), ` ${text}`)};
    });
  const rule = view.kind === 'relation' ? ' Change only one of subject, verb and object.' : '';
  item.replaceChildren(
    make('figure', {}, image, problem), right,
    make('form', {class: 'assay-side assay-fix', onsubmit: save}, heading(),
      make('h3', {}, `First caption (${view.kind})`), make('p', {class: 'assay-text'}, view.text),
      make('h3', {}, `Second caption: true of the second image, not of the first.${rule}`), caption,
      ...ticks.map(({label}) => label),
      make('div', {class: 'assay-row'}, make('button', {type: 'submit', 'data-decision': 'pair'}, make('kbd', {}, 'Enter'), ' Save'),
        button('No image fits', '0', giveUp, {'data-decision': 'none', 'aria-pressed': String(view.decision === 'none')})),
      navigation()));
  drawPicture(image, problem);
  drawSecond();
}

async function drawSecond() {
  const name = second;
  right.replaceChildren(make('figcaption', {class: 'assay-note'}, name || 'no second image yet: press s to choose one'));
  if (!name) return;
  const answer = await call('picture', {index: view.index, name});
  if (!answer || name !== second) return;
  right.prepend(make('img', {src: answer.src, alt: 'the second image'}));
}

// A tile of the similar images chooses the second image.
function onTile(name) {
  second = name;
  similar.hidden = true;
  ticks.forEach(({box}) => { box.checked = false; });
  drawSecond();
}

async function save(event) {
  event.preventDefault();
  const answer = await call('decide', {id: view.id, decision: 'pair', name: second, text: caption.value,
    first_absent: ticks[0].box.checked, second_absent: ticks[1].box.checked});
  if (!answer) return;
  draw(answer);
}

async function giveUp() {
  const answer = await call('decide', {id: view.id, decision: 'none'});
  if (!answer) return;
  draw(answer);
}

function onKey(key) {
  if (key === 'c') return () => caption.focus();
  if (key === '0') return giveUp;
  if (key === 'Enter') return () => save(new Event('submit'));
  const tick = /^[12]$/.test(key) && ticks[Number(key) - 1];
  return tick ? () => { tick.box.checked = !tick.box.checked; } : null;
}
