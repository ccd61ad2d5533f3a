// A click on the button copies the command beside it.
element.addEventListener('click', async (event) => {
  const button = event.target.closest('.assay-code button');
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement.querySelector('code').innerText);
  button.textContent = 'Copied';
});
