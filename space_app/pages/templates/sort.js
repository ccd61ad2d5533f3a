// A click on a heading sorts by its column.
element.addEventListener('click', (event) => {
  const heading = event.target.closest('button[data-column]');
  if (heading) trigger('click', {column: heading.dataset.column});
});
