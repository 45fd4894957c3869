import { useExplorer } from "../explorer/explorer";
import { usePlay } from "../explorer/use-play";
import type { Shared } from "../logic/share";
import { AuditPanel } from "./audit";
import { Bar } from "./bar";
import { BeamPanel } from "./beam";
import { ExportPanel } from "./export";
import { HeadMap } from "./head-map";
import { HelpPanel } from "./help";
import { Inspector } from "./inspector";
import { Lanes } from "./lanes";
import { LiveRegion } from "./live-region";
import { Rail } from "./rail";
import { SamenessBar } from "./sameness";
import { Sentence } from "./sentence";
import { SharePanel } from "./share";
import { StagePanel } from "./stage";
import { Notices } from "./states";
import { Switches } from "./switches";
import { Tour, TourOffer } from "./tour";

/** The page from top to bottom, in the order of the focus. */
export function Page({ shared }: { shared: Shared | null }) {
  const { view, t } = useExplorer();
  usePlay();
  return (
    <>
      <button type="button" class="skip" onClick={toGrid}>
        {t.skip}
      </button>
      <Bar />
      <main>
        <Notices shared={shared} />
        <TourOffer />
        <Sentence />
        <Rail />
        <StagePanel />
        <Lanes />
        <SamenessBar />
        <div class="pair">
          <HeadMap />
          <Inspector />
        </div>
        <Switches />
      </main>
      {view.panel === "audit" && <AuditPanel />}
      {view.panel === "beam" && <BeamPanel />}
      {view.panel === "export" && <ExportPanel />}
      {view.panel === "share" && <SharePanel />}
      {view.panel === "help" && <HelpPanel />}
      <Tour />
      <LiveRegion />
    </>
  );
}

function toGrid(): void {
  document.querySelector<HTMLElement>("[role=grid]")?.focus();
}
