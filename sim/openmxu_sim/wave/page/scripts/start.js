// Begin, with what the page carries.

document.body.classList.toggle("framed", window.parent !== window); // what surrounds it has said what it is
const DATA = JSON.parse(document.getElementById("data").textContent);
const page = DATA.heat ? new HeatPage(DATA) : DATA.commands ? new WatchedPage(DATA) : new Page(DATA);
window.openmxu = { Model, page };
page.open().catch((error) => {
  $("notice").hidden = false;
  $("notice").textContent = `The page cannot be shown: ${error.message}`;
  throw error;
});
