// The address of the page holds the open tab and its choices; see pages/address.py.
window.assay = (() => {
  const views = {};
  let tabs = [], tab = null;
  const asked = () => new URLSearchParams(location.search);
  // Names that begin with "__", such as gradio's theme, are kept.
  const isKept = (name) => name.startsWith('__');
  const choices = (query) => new URLSearchParams([...query].filter(([name]) => name !== 'tab' && !isKept(name)));
  const tabOf = (query) => (tabs.includes(query.get('tab')) ? query.get('tab') : tabs[0]);

  const write = (isNew) => {
    const query = new URLSearchParams([...asked()].filter(([name]) => isKept(name)));
    const own = [...(views[tab] ?? [])];
    if (tab !== tabs[0]) query.append('tab', tab);
    for (const [name, value] of own) query.append(name, value);
    const text = query.size ? `?${query}` : '';
    if (text === location.search) return;
    history[isNew ? 'pushState' : 'replaceState'](null, '', location.pathname + text);
    // A Space is a frame on the Hub, whose own address follows this message.
    if (parent !== window && document.referrer.startsWith('https://huggingface.co'))
      parent.postMessage({queryString: text, hash: ''}, 'https://huggingface.co');
  };

  const button = (name) => document.getElementById(`tab-${name}-button`);

  addEventListener('popstate', () => {
    const next = tabOf(asked()), now = String(views[next] ?? '');
    if (String(choices(asked())) !== now) return location.reload();
    tab = next;
    button(next)?.click();
  });

  return {
    // When the page has loaded: select the tab that the address names.
    start: (names) => {
      tabs = names;
      tab = tabOf(asked());
      views[tab] = choices(asked());
      return {__type__: 'update', selected: tab};
    },
    // When a tab was opened.
    open: (name) => {
      if (!tabs.length || name === tab) return;
      tab = name;
      write(true);
    },
    // When a choice changed: those that are empty, or as they were at the start, are left out.
    record: (name, fields, values, start) => {
      const query = new URLSearchParams();
      fields.forEach((field, place) => {
        for (const value of [values[place]].flat())
          if (![null, undefined, '', false, start[place]].includes(value)) query.append(field, value);
      });
      views[name] = query;
      if (name === tab) write(false);
    },
  };
})();
