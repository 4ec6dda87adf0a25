"""The status page: `/status.json` for people.

Pure.
"""

from __future__ import annotations

from typing import Any

from discovery.kit.page import page

_STATUS = """
<p>Version {{ version }}, epoch {{ table.epoch }}, revision {{ table.revision }}, up {{ uptime_s | round | int }} s.
The list is {{ "complete" if table.complete else "NOT complete: readers add and never remove" }}.
{{ watchers }} watching.</p>
<p>{{ table.pools }} pools, {{ table.frontends }} frontends listed, {{ table.usable_frontends }} usable.</p>
<h2>Regions</h2>
<div class="wide"><table><tr><th>region</th><th>pools</th></tr>
{% for region, pools in table.regions.items() %}<tr><td>{{ region }}</td><td>{{ pools }}</td></tr>
{% endfor %}</table></div>
{% if registrations %}<h2>Registrations</h2>
<p>{{ registrations.listed }} with a live lease, {{ registrations.expired }} expired,
kept in {{ registrations.storage }}.
Heartbeat every {{ registrations.heartbeat_interval_secs }} s, lease {{ registrations.lease_duration_secs }} s.
{{ registrations.who_may_write | capitalize }} may register.</p>
{% if registrations.error %}<p><strong>Cannot be read now, the last ones stay: {{ registrations.error }}</strong></p>
{% endif %}
{% if registrations.tokens and registrations.tokens.error %}
<p><strong>The tokens file is broken, its last good tokens stay: {{ registrations.tokens.error }}</strong></p>
{% endif %}
{% if registrations.malformed_items %}<div class="wide"><table><tr><th>item</th><th>what is wrong</th></tr>
{% for one in registrations.malformed_items %}<tr><td>{{ one.id }}</td><td>{{ one.reason }}</td></tr>
{% endfor %}</table></div>{% endif %}
{% endif %}
{% if watches %}<h2>Watches</h2>
<div class="wide"><table><tr><th>watch</th><th>slices</th><th>last heard</th><th>what is wrong</th></tr>
{% for one in watches %}<tr><td>{{ one.watch }}</td><td>{{ one.slices }}</td>
<td>{{ one.age_s }} s ago</td><td>
{% if not one.listed %}not listed yet<br>{% endif %}
{% if one.held %}a list that would remove most pools is held<br>{% endif %}
{% if one.trouble %}{{ one.trouble }}<br>{% endif %}
{% for bad in one.refused %}{{ bad.namespace }}/{{ bad.name }}: {{ bad.reason }}<br>{% endfor %}</td></tr>
{% endfor %}</table></div>{% endif %}
{% if files %}<h2>Files in {{ files.path }}</h2>
{% if files.error %}<p><strong>Cannot be read now, the last slices stay: {{ files.error }}</strong></p>{% endif %}
<div class="wide"><table><tr><th>file</th><th>slices</th><th>what is wrong</th></tr>
{% for file in files.files %}<tr><td>{{ file.name }}</td><td>{{ file.slices }}</td><td>
{% if file.error %}{{ "line %d: " % file.error.line if file.error.line else "" }}{{ file.error.reason }}<br>{% endif %}
{% for one in file.refused %}{{ one.slice }}{{ " (line %d)" % one.line if one.line else "" }}: {{ one.reason }}<br>
{% endfor %}</td></tr>
{% endfor %}</table></div>{% endif %}
<h2>Slices that are not used</h2>
<div class="wide"><table><tr><th>slice</th><th>state</th><th>reason</th><th>detail</th></tr>
{% for one in unused %}<tr><td>{{ one.namespace }}/{{ one.name }}</td><td>{{ one.state }}</td><td>{{ one.reason }}</td>
<td>{{ one.detail }}</td></tr>
{% endfor %}</table></div>
<h2>To mend</h2>
<div class="wide"><table><tr><th>what</th><th>where</th><th>detail</th></tr>
{% for one in warnings %}<tr><td>{{ one.kind }}</td><td>{{ one.subject }}</td><td>{{ one.detail }}</td></tr>
{% endfor %}</table></div>
"""


def status_page(document: dict[str, Any]) -> str:
    return page("Global discovery", _STATUS, document)
