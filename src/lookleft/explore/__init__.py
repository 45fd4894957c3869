"""See your own sentence go through masked attention, training beside inference.

    trace.py      one sentence through one model, recorded: both lanes, every head
    service.py    what the page asks for (knows no HTTP); server.py answers on 127.0.0.1
    page.py       the one-file page; draw_text.py and draw_svg.py for terminals and papers

Every number comes from the forward pass that trains and the steps that generate.
"""
