// The style sheet of the HTML report: light and dark by the reader's preference, eight colours that
// stay apart for colour-blind eyes, then the same dashed. Internal to the HTML report.
#pragma once

namespace weir::scenario {

inline constexpr int kColors = 8;
inline constexpr int kStyles = 3 * kColors;  // solid, dashed, dotted

inline constexpr const char* kStyleSheet = R"css(
:root{color-scheme:light dark;--page:#f7f7f5;--card:#fff;--ink:#1c1e21;--soft:#5d646d;--rule:#dfe1e4;
--grid:#eceded;--good:#0b7a4b;--good-bg:#e3f4ec;--bad:#b3261e;--bad-bg:#fbe6e4;--mark:#8a8f98;
--c0:#1f6fd1;--c1:#e06a1b;--c2:#128a6b;--c3:#b3348c;--c4:#8a6d00;--c5:#6a4fc8;--c6:#0f8fa8;--c7:#6b7078}
@media(prefers-color-scheme:dark){:root{--page:#14161a;--card:#1d2025;--ink:#e8eaed;--soft:#a2a9b3;
--rule:#343941;--grid:#2a2e35;--good:#5fd3a0;--good-bg:#153527;--bad:#ff8f86;--bad-bg:#42201d;
--mark:#7d8590;--c0:#5ea6ff;--c1:#ff9a56;--c2:#43cfa6;--c3:#f27fcb;--c4:#e3c246;--c5:#ad97ff;
--c6:#52cbe3;--c7:#b0b6be}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",
Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px}
h2{font-size:20px;margin:0 0 2px}
h3{font-size:15px;margin:22px 0 6px}
p{margin:4px 0 10px;max-width:78ch}
.soft,.unit,.where{color:var(--soft)}
.run{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:20px 22px;margin:22px 0}
.badge{display:inline-block;padding:1px 9px;border-radius:20px;font-weight:600;font-size:13px}
.held{color:var(--good);background:var(--good-bg)}
.missed{color:var(--bad);background:var(--bad-bg)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}
th,td{padding:5px 9px;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:600;vertical-align:bottom;line-height:1.25}
td.n,th.n{text-align:right}
td.n,.verdict{white-space:nowrap}
.verdict{width:1%}
tr:last-child td{border-bottom:0}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:14px 0 6px;padding:0;list-style:none;font-size:14px}
.legend svg{width:26px;height:10px;margin-right:6px;vertical-align:middle;overflow:visible}
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:14px 22px}
@media(max-width:820px){.charts{grid-template-columns:minmax(0,1fr)}}
figure{margin:0}
figcaption{font-weight:600;font-size:14px}
.unit{font-weight:400}
svg{display:block;width:100%;height:auto}
.legend svg{display:inline-block}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:var(--ink)}
svg .tick{fill:var(--soft);font-size:11.5px}
.grid{stroke:var(--grid)}
.axis{stroke:var(--rule)}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.reference{stroke-width:1;stroke-dasharray:2 4;opacity:.9}
.marker{stroke:var(--mark);stroke-dasharray:4 3}
svg .marker-text{fill:var(--soft);font-size:11px;font-weight:600}
.hit{fill:transparent}
.tip{visibility:hidden;pointer-events:none}
.slot:hover .tip{visibility:visible}
.cross{stroke:var(--mark)}
.box{fill:var(--card);stroke:var(--rule);opacity:.96}
svg .tip-title{fill:var(--soft)}
.s0,.s8,.s16{stroke:var(--c0)}.s1,.s9,.s17{stroke:var(--c1)}.s2,.s10,.s18{stroke:var(--c2)}
.s3,.s11,.s19{stroke:var(--c3)}.s4,.s12,.s20{stroke:var(--c4)}.s5,.s13,.s21{stroke:var(--c5)}
.s6,.s14,.s22{stroke:var(--c6)}.s7,.s15,.s23{stroke:var(--c7)}
.line.s8,.line.s9,.line.s10,.line.s11,.line.s12,.line.s13,.line.s14,.line.s15{stroke-dasharray:7 4}
.line.s16,.line.s17,.line.s18,.line.s19,.line.s20,.line.s21,.line.s22,.line.s23{stroke-dasharray:2 4}
.dot.s0,.dot.s8,.dot.s16{fill:var(--c0)}.dot.s1,.dot.s9,.dot.s17{fill:var(--c1)}
.dot.s2,.dot.s10,.dot.s18{fill:var(--c2)}.dot.s3,.dot.s11,.dot.s19{fill:var(--c3)}
.dot.s4,.dot.s12,.dot.s20{fill:var(--c4)}.dot.s5,.dot.s13,.dot.s21{fill:var(--c5)}
.dot.s6,.dot.s14,.dot.s22{fill:var(--c6)}.dot.s7,.dot.s15,.dot.s23{fill:var(--c7)}
.bar{display:flex;width:90px;height:10px;border-radius:3px;overflow:hidden;background:var(--grid);margin-top:6px}
.bar i{display:block;height:100%}
.r{background:var(--c2)}.w{background:var(--c0)}.l{background:var(--c4)}
.key i{display:inline-block;width:10px;height:10px;border-radius:2px;margin:0 5px 0 12px}
ol.changes{margin:4px 0;padding-left:24px;font-size:14px}
details{border-top:1px solid var(--rule);margin-top:26px;padding-top:12px}
summary{cursor:pointer;font-weight:600}
)css";

}  // namespace weir::scenario
