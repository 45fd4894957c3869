/** Hands a file to the reader. Nothing is sent anywhere: the address is a blob of this page. */
export function save(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\p{L}\p{N}.@_-]+/gu, "-");
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The page as it was before it drew anything: a one-file page saves itself. */
export function bareDocument(page: Document): string {
  const copy = page.documentElement.cloneNode(true) as HTMLElement;
  copy.querySelector("#app")?.replaceChildren();
  delete copy.dataset.theme;
  return `<!doctype html>\n${copy.outerHTML}\n`;
}
