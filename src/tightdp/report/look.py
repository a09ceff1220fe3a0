"""Styles of reports and of all that shows the same parts: colours, tables, pictures, the page.

``PARTS`` is all that tables and pictures need, wherever they stand; ``PAGE`` is the report itself.
"""

from __future__ import annotations

from tightdp.plots.canvas import ACCENT, COOL

COLOURS = (
    f":root{{--accent:{ACCENT};--cool:{COOL}}}"
    + """
:root{color-scheme:light dark;--paper:#fff;--ground:#f5f7f9;--ink:#1f2933;--muted:#5c6875;
--soft:#e4e9ee;--line:#dde3e8}
@media (prefers-color-scheme:dark){:root{--paper:#1b2129;--ground:#12161b;--ink:#e8edf2;
--muted:#a3afbb;--soft:#36414d;--line:#36414d;--accent:#ff9a52;--cool:#5db5ee}}
"""
)

PARTS = """
.tdp-chart{display:grid;grid-template-columns:170px minmax(90px,1fr) minmax(215px,max-content);
grid-auto-flow:row dense;align-items:center;gap:2px 14px;margin:10px 0 16px;max-width:100%}
.tdp-title{grid-column:1/-1;margin:0 0 2px;font-size:14px;font-weight:600}
.tdp-name{grid-column:1;font-size:14px;overflow-wrap:anywhere}
.tdp-said{grid-column:3;font-size:14px;font-variant-numeric:tabular-nums;white-space:nowrap}
.tdp-said small{color:var(--muted,#5c6875);font-size:12.5px}
.tdp-track{grid-column:2;display:block;overflow:visible}
.tdp-columns{display:grid;grid-template-columns:64px minmax(0,1fr);gap:0 8px;margin:10px 0 16px}
.tdp-columns p{grid-column:1/-1}
.tdp-columns .tdp-title{font-weight:400;font-size:13px;color:var(--muted,#5c6875)}
.tdp-foot{margin:0;text-align:center;font-size:14px;font-weight:600}
.tdp-side,.tdp-plot{display:block;overflow:visible}
.tdp-power{display:block;max-width:100%}
.tdp-scroll{overflow-x:auto;max-width:100%;margin:8px 0}
.tdp-scroll table{border-collapse:collapse;width:100%;font-size:14.5px;
font-variant-numeric:tabular-nums}
.tdp-scroll caption{text-align:left;font-weight:600;padding:6px 0}
.tdp-scroll th,.tdp-scroll td{padding:6px 10px;text-align:right;
border-bottom:1px solid var(--line,#dde3e8)}
.tdp-scroll th[scope=col]{color:var(--muted,#5c6875);font-weight:600;
border-bottom:2px solid var(--line,#dde3e8)}
.tdp-scroll th[scope=row]{font-weight:400}
.tdp-scroll th:first-child,.tdp-scroll td:first-child{text-align:left;padding-left:0}
.tdp-scroll td{white-space:nowrap}
.tdp-scroll.tdp-left td{white-space:normal;min-width:90px}
.tdp-scroll.tdp-left th,.tdp-scroll.tdp-left td{text-align:left;vertical-align:top}
@media (max-width:620px){
.tdp-chart{grid-template-columns:minmax(0,1fr) max-content}
.tdp-name{grid-column:1}.tdp-said{grid-column:2}
.tdp-track{grid-column:1/-1;margin-bottom:4px}
.tdp-columns{grid-template-columns:52px minmax(0,1fr)}
.tdp-scroll td,.tdp-scroll th{padding:6px 8px}}
"""

PAGE = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:900px;margin:0 auto;padding:40px 20px 64px}
header h1{font-size:32px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em;
overflow-wrap:anywhere}
header p{margin:0;color:var(--muted)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:12px;
margin:24px 0 28px}
.card,.sheet{background:var(--paper);border:1px solid var(--line);border-radius:12px}
.card{padding:14px 18px}
.card b{display:block;font-size:22px;line-height:1.3;font-variant-numeric:tabular-nums}
.card span{color:var(--muted);font-size:13.5px}
.sheet{padding:24px 28px;margin:0 0 20px}
h2{font-size:21px;margin:0 0 4px;letter-spacing:-.005em;overflow-wrap:anywhere}
h3{font-size:15px;margin:22px 0 6px}
.about{color:var(--muted);margin:0 0 16px}
.badge{float:right;background:var(--soft);border-radius:999px;padding:3px 12px;font-size:13px;
margin-left:12px;font-variant-numeric:tabular-nums}
.warn{background:#b00020;color:#fff;border-radius:12px;padding:12px 18px;margin:0 0 20px}
details{margin-top:14px}summary{cursor:pointer;color:var(--cool)}
details p{overflow-wrap:anywhere}
.note{color:var(--muted);font-size:14px}
.formula{text-align:center;font-size:20px;margin:16px 0;padding:4px 0;overflow:auto hidden}
.two{display:grid;grid-template-columns:minmax(0,1fr) 320px;gap:28px;align-items:center}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13px;
overflow-wrap:anywhere}
pre,blockquote{background:var(--ground);border-radius:8px;padding:12px 16px;margin:10px 0;
overflow-x:auto}
.receipt td:last-child{overflow-wrap:anywhere;font-size:12px;min-width:200px;
font-family:ui-monospace,Menlo,Consolas,monospace}
footer{color:var(--muted);font-size:13px;text-align:center;margin-top:28px}
@media (max-width:700px){.two{grid-template-columns:1fr}.badge{float:none;display:inline-block;
margin:0 0 8px}main{padding:24px 10px 40px}.sheet{padding:18px 16px}header h1{font-size:26px}
.cards{grid-template-columns:1fr 1fr}}
@media print{body{background:#fff}.sheet,.card{break-inside:avoid}}
"""

STYLE = COLOURS + PARTS + PAGE
