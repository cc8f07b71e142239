#!/bin/sh
# chromium.sh MAKE-STORE BACE FAULTS.js: the report in a real browser, at three
# widths, light and dark: nothing on the console, nothing wider than the window,
# nothing fetched, and nothing of what FAULTS.js finds (axe-core is not in Debian).
set -u
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
	echo "skipped: no chromium"
	exit 77
}
dir=$(mktemp -d /tmp/bace-chromium-XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT
"$1" "$dir/store.db" 4 3 >/dev/null && "$2" --store "$dir/store.db" report last -o "$dir/r.html" >/dev/null || exit 1
cp "$3" "$dir/faults.js"

# look WIDTH SCHEME(1 light, 0 dark). The page is measured from within a frame;
# the answer is the title.
look() {
	cat >"$dir/frame.html" <<H
<!DOCTYPE html><html><body><script src="faults.js"></script>
<iframe id="f" src="r.html" style="width:${1}px;height:800px;border:0"></iframe>
<script>document.getElementById('f').onload = function () {
  var d = this.contentDocument, w = this.contentWindow, f = faults(d, w);
  document.title = 'too wide by ' + (d.documentElement.scrollWidth - d.documentElement.clientWidth) + ' fetched ' +
    w.performance.getEntriesByType('resource').length + ' plots ' + d.querySelectorAll('svg').length + ' dark ' +
    w.matchMedia('(prefers-color-scheme: dark)').matches + ' faults ' + f.found.length;
  document.body.dataset.found = f.found.join(' | ') + ' least contrast ' + f.worst.toFixed(2);
};</script></body></html>
H
	dom=$(timeout 150 "$browser" --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
		--blink-settings=preferredColorScheme="$2" --user-data-dir="$dir/profile" --virtual-time-budget=5000 \
		--enable-logging=stderr --v=0 --dump-dom "file://$dir/frame.html" 2>"$dir/log")
	title=$(printf '%s' "$dom" | sed -n 's/.*<title>\(.*\)<\/title>.*/\1/p')
	echo "$1: $title; $(printf '%s' "$dom" | tr '\n' ' ' | sed -n 's/.*data-found="\([^"]*\)".*/\1/p')"
	if grep CONSOLE "$dir/log"; then
		exit 1
	fi
	case $title in
	"too wide by 0 fetched 0 plots 9 dark $3 faults 0") ;;
	*) echo "wanted: too wide by 0 fetched 0 plots 9 dark $3 faults 0"; exit 1 ;;
	esac
}
look 360 1 false
look 800 0 true
look 1400 1 false
