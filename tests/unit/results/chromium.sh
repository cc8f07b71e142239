#!/bin/sh
# chromium.sh MAKE-STORE BACE: the report in a real browser, at three widths:
# nothing on the console, nothing wider than the window, nothing fetched.
set -u
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
	echo "skipped: no chromium"
	exit 77
}
dir=$(mktemp -d /tmp/bace-chromium-XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT
"$1" "$dir/store.db" 4 3 >/dev/null && "$2" --store "$dir/store.db" report last -o "$dir/r.html" >/dev/null || exit 1
# The page is measured from within a frame of each width; the answer is its title.
for width in 390 768 1280; do
	cat >"$dir/frame.html" <<H
<!DOCTYPE html><html><body><iframe id="f" src="r.html" style="width:${width}px;height:800px;border:0"></iframe>
<script>document.getElementById('f').onload = function () {
  var d = this.contentDocument, w = this.contentWindow;
  var r = w.performance.getEntriesByType('resource').length;
  document.title = 'too wide by ' + (d.documentElement.scrollWidth - d.documentElement.clientWidth) + ' fetched ' + r + ' plots ' + d.querySelectorAll('svg').length;
};</script></body></html>
H
	dom=$(timeout 60 "$browser" --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
		--user-data-dir="$dir/profile" --virtual-time-budget=5000 --enable-logging=stderr --v=0 \
		--dump-dom "file://$dir/frame.html" 2>"$dir/log")
	title=$(printf '%s' "$dom" | sed -n 's/.*<title>\(.*\)<\/title>.*/\1/p')
	echo "$width: $title"
	if grep -q CONSOLE "$dir/log"; then
		grep CONSOLE "$dir/log"
		exit 1
	fi
	case $title in
	"too wide by 0 fetched 0 plots 7") ;;
	*) echo "wanted: too wide by 0 fetched 0 plots 7"; exit 1 ;;
	esac
done
