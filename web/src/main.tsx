import { render } from "preact";
import { App } from "./app";
import { findSource } from "./data/source";
import { unpack } from "./logic/share";
import "./styles/index.css";

const root = document.getElementById("app");
if (!root) throw new Error("the page has no #app");
// A link changed by hand in the address bar is a new visit.
window.addEventListener("hashchange", () => window.location.reload());
unpack(window.location.hash).then((shared) => {
  render(<App source={findSource(document)} shared={shared} />, root);
});
