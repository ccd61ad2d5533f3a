// A plain click on a card opens its benchmark without loading the page again; the link works without this.
element.addEventListener('click', (event) => {
  const link = event.target.closest('a[data-benchmark]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const query = new URLSearchParams(location.search);
  query.set('tab', 'benchmarks');
  query.set('benchmark', link.dataset.benchmark);
  history.pushState(null, '', `?${query}`);
  trigger('click', {benchmark: link.dataset.benchmark});
  scrollTo(0, 0);
});
