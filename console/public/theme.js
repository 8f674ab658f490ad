// Runs before the first paint, so that a dark page never flashes white. It is
// a file of its own because the content security policy allows no inline script.
(function () {
  var choice = null;
  try {
    choice = localStorage.getItem('modeldock.theme');
  } catch {
    // storage is blocked: follow the system
  }
  var dark =
    choice === 'dark' ||
    (choice !== 'light' && window.matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
})();
