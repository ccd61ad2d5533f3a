// A click on a heading ranks by its column; a click on a model's name opens its page, without leaving this one.
element.addEventListener('click', (event) => {
  const heading = event.target.closest('button[data-column]');
  if (heading) trigger('click', {column: heading.dataset.column});
  const link = event.target.closest('a[data-model]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  trigger('select', {model: link.dataset.model});
});
