// The answers in a saved page, see `saved_page.js`; in a page from a server there are
// none.

const place = document.getElementById("saved");
const saved = place && JSON.parse(place.textContent);

export const isSaved = Boolean(saved);
export const savedHash = saved?.hash ?? "";

// The answer to a request; undefined if the file has none.
export function savedAnswer(path) {
  const found = saved.answers[path];
  if (!found) return undefined;
  const bytes = Uint8Array.from(atob(found.body), (character) => character.charCodeAt(0));
  return new Response(bytes, { status: found.status });
}
