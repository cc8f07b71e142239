/* What keeps people out of a page, of what can be told without looking: names
 * of pictures, headings, tables and links; contrast of all text as drawn. */
function faults(d, w) {
  var found = [];
  function all(selector) { return Array.prototype.slice.call(d.querySelectorAll(selector)); }
  function say(what, e) { found.push(what + ': ' + (e.outerHTML || '').slice(0, 80)); }
  if (!d.documentElement.lang) found.push('no language');
  if (!d.title) found.push('no title');
  if (all('main').length !== 1) found.push('not one main');
  if (all('h1').length < 1) found.push('no h1');
  var level = 0;
  all('h1,h2,h3,h4,h5,h6').forEach(function (h) {
    var n = +h.tagName[1];
    if (n > level + 1) say('heading after h' + level, h);
    if (!h.textContent.trim()) say('empty heading', h);
    level = n;
  });
  all('svg').forEach(function (s) {
    if (s.getAttribute('aria-hidden') === 'true' || s.closest('[role=img][aria-label],[role=img][aria-labelledby]')) return;
    if (s.getAttribute('role') !== 'img' || !(s.getAttribute('aria-label') || s.getAttribute('aria-labelledby') || s.querySelector('title')))
      say('picture without a name', s);
  });
  all('img:not([alt])').forEach(function (e) { say('no alt', e); });
  all('table').forEach(function (t) {
    if (!t.querySelector('th')) say('table without heads', t);
    if (!t.querySelector('caption') && !t.getAttribute('aria-label') && !t.getAttribute('aria-labelledby')) say('table without caption', t);
    Array.prototype.forEach.call(t.querySelectorAll('th'), function (h) { if (!h.getAttribute('scope')) say('th without scope', h); });
  });
  all('a').forEach(function (e) {
    if (!e.textContent.trim() && !e.getAttribute('aria-label')) say('link without text', e);
    var to = e.getAttribute('href') || '';
    if (to[0] === '#' && to.length > 1 && !d.getElementById(decodeURIComponent(to.slice(1)))) say('link to nowhere', e);
  });
  var ids = {};
  all('[id]').forEach(function (e) { if (ids[e.id]) say('id twice', e); ids[e.id] = true; });
  all('[aria-labelledby],[aria-describedby]').forEach(function (e) {
    ((e.getAttribute('aria-labelledby') || '') + ' ' + (e.getAttribute('aria-describedby') || '')).trim().split(/\s+/).forEach(function (id) {
      if (id && !d.getElementById(id)) say('named by nothing', e);
    });
  });
  all('*').forEach(function (e) {
    if (e.tabIndex > 0) say('tabindex above 0', e);
    /* What scrolls can be reached with a keyboard. */
    if (e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(w.getComputedStyle(e).overflowX) && e.tabIndex < 0) say('scrolls, but not with a keyboard', e);
  });
  function rgb(text) { var m = text.match(/[\d.]+/g); return m ? m.map(Number) : [0, 0, 0, 0]; }
  function light(c) {
    var v = c.slice(0, 3).map(function (x) { x /= 255; return x <= 0.04045 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4); });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
  }
  /* Of text in a plot, what was painted under it last. */
  function field(e) {
    var box = e.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2, found = null;
    Array.prototype.forEach.call(e.ownerSVGElement.querySelectorAll('rect,polygon,path'), function (s) {
      var b = s.getBoundingClientRect(), style = w.getComputedStyle(s);
      if (!(s.compareDocumentPosition(e) & 4) || s.closest('defs') || style.fill === 'none' || +style.fillOpacity < 0.99) return;
      if (b.left <= x && x <= b.right && b.top <= y && y <= b.bottom) found = rgb(style.fill);
    });
    return found && (found.length < 4 || found[3] > 0.99) ? found : null;
  }
  function ground(e) {
    var under = e.ownerSVGElement && field(e);
    if (under) return under;
    for (; e; e = e.parentElement) {
      var c = rgb(w.getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0.99) return c;
    }
    return w.matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  }
  var worst = 99, said = 0;
  all('body *').forEach(function (e) {
    var text = Array.prototype.some.call(e.childNodes, function (n) { return n.nodeType === 3 && n.textContent.trim(); });
    var style = w.getComputedStyle(e), box = e.getBoundingClientRect();
    if (!text || !box.width || style.visibility === 'hidden' || e.closest('defs,title,style')) return;
    var ink = light(rgb(e.namespaceURI.indexOf('svg') > 0 ? style.fill : style.color)), paper = light(ground(e));
    var ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    var size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
    worst = Math.min(worst, ratio);
    if (ratio < (large ? 3 : 4.5) && said++ < 3) say('contrast ' + ratio.toFixed(2), e);
  });
  return { found: found, worst: worst };
}
