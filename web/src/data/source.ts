import {
  type Audit,
  type Beam,
  type FileData,
  type ModelState,
  type Proof,
  Refusal,
  type TraceRequest,
} from "./answers";
import type { Kind, Tokens, Trace, WireHead } from "./types";

export interface HeadPlace {
  kind: Kind;
  layer: number;
  head: number;
}

/** Where numbers come from: a server on this machine, or the data inside one file. */
export interface Source {
  readonly isLive: boolean;
  model(): Promise<ModelState>;
  open(model: string): Promise<ModelState>;
  tokens(
    model: string,
    side: "source" | "target",
    text: string,
    stop: AbortSignal,
  ): Promise<Tokens>;
  trace(request: TraceRequest, stop: AbortSignal): Promise<Trace>;
  head(trace: string, place: HeadPlace): Promise<WireHead>;
  prove(trace: string, place: HeadPlace, row: number, column: number): Promise<Proof>;
  beam(model: string, source: string): Promise<Beam>;
  audit(trace: string): Promise<Audit>;
  everything(trace: string, scope: FileData["scope"], place: HeadPlace): Promise<FileData>;
  page(trace: string, scope: FileData["scope"], place: HeadPlace): Promise<string>;
}

async function reach(path: string, body?: unknown, stop?: AbortSignal): Promise<Response> {
  try {
    return await fetch(path, {
      ...(stop ? { signal: stop } : {}),
      ...(body === undefined
        ? {}
        : {
            method: "POST",
            headers: { "Content-Type": "application/json" },
            body: JSON.stringify(body),
          }),
    });
  } catch (error) {
    if (stop?.aborted) throw error;
    throw new Refusal("offline", "no answer from the server");
  }
}

async function ask<T>(path: string, body?: unknown, stop?: AbortSignal): Promise<T> {
  const answer = await reach(path, body, stop);
  const text = await answer.text();
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    throw new Refusal("internal", `the server answered ${answer.status} without JSON`);
  }
  if (answer.ok) return read as T;
  const { code, message, ...details } = (read as { error: { code: string; message: string } })
    .error;
  throw new Refusal(code, message, details);
}

function query(place: HeadPlace): string {
  return new URLSearchParams({
    kind: place.kind,
    layer: String(place.layer),
    head: String(place.head),
  }).toString();
}

/** The server that `lookleft explain` started; every address is relative to the page's own. */
export const live: Source = {
  isLive: true,
  model: () => ask("api/model"),
  open: (model) => ask("api/open", { model }),
  tokens: (model, side, text, stop) => ask("api/tokens", { model, side, text }, stop),
  trace: (request, stop) => ask("api/trace", request, stop),
  head: (trace, place) => ask(`api/trace/${trace}/head?${query(place)}`),
  prove: (trace, place, row, column) => ask("api/prove", { trace, ...place, row, column }),
  beam: (model, source) => ask("api/beam", { model, source }),
  audit: (trace) => ask("api/audit", { trace }),
  everything: (trace, scope, place) =>
    ask(`api/trace/${trace}/json?scope=${scope}&${query(place)}`),
  page: async (trace, scope, place) => {
    const answer = await reach(`api/trace/${trace}/html?scope=${scope}&${query(place)}`);
    if (!answer.ok) throw new Refusal("internal", `the server answered ${answer.status}`);
    return answer.text();
  },
};

function sameHead(head: HeadPlace, place: HeadPlace): boolean {
  return head.kind === place.kind && head.layer === place.layer && head.head === place.head;
}

/** The data inside the file. What it does not hold is refused with the code "file". */
export function fromFile(file: FileData): Source {
  const absent = () => new Refusal("file", file.command);
  const kept = <T>(value: T | null | undefined) =>
    value ? Promise.resolve(value) : Promise.reject(absent());
  const view = (id: string) => file.views.find(({ trace }) => trace.id === id);
  return {
    isLive: false,
    model: () =>
      Promise.resolve({
        version: file.version,
        state: "ready",
        name: file.models[0]?.name ?? "",
        phase: null,
        message: null,
        models: file.models,
        examples: file.views.slice(0, 1).map(({ trace }) => ({
          source: trace.source?.text ?? null,
          target: trace.target.text,
          difficulty: 0,
        })),
        first: {},
        known: [],
        command: file.command,
        lookleft: file.lookleft,
      }),
    open: () => Promise.reject(absent()),
    tokens: () => Promise.reject(absent()),
    trace: (request) =>
      kept(
        file.views.find(
          ({ trace }) =>
            trace.model.key === request.model &&
            trace.settings.inputs === request.inputs &&
            trace.settings.is_masked === (request.is_masked ?? trace.settings.is_masked) &&
            trace.settings.is_cached === request.is_cached,
        )?.trace,
      ),
    head: (trace, place) => {
      const found = view(trace);
      return kept(
        [...(found ? [found.trace.head] : []), ...(found?.heads ?? [])].find((head) =>
          sameHead(head, place),
        ),
      );
    },
    prove: () => Promise.reject(absent()),
    beam: () => kept(file.beam),
    audit: () => kept(file.audit),
    everything: () => Promise.resolve(file),
    page: () => Promise.reject(absent()),
  };
}

/** The source this page was given: the data element of a one-file page, else the server. */
export function findSource(page: Document): Source {
  const element = page.getElementById("lookleft-data");
  return element ? fromFile(JSON.parse(element.textContent ?? "") as FileData) : live;
}
