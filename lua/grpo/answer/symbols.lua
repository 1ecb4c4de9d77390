-- symbols.lua - what characters, LaTeX commands and words mean in an answer.

local symbols = {}

local function set(words)
  local t = {}
  for word in words:gmatch("%S+") do t[word] = true end
  return t
end

local function pairs_of(text)
  local t = {}
  for name, meaning in text:gmatch("(%S+)=(%S+)") do t[name] = meaning end
  return t
end

-- ---- characters outside ASCII, as LaTeX -----------------------------------------------

symbols.characters = {
  ["\u{D7}"] = "\\times ", ["\u{F7}"] = "\\div ", ["\u{B7}"] = "\\cdot ", ["\u{22C5}"] = "\\cdot ",
  ["\u{2219}"] = "\\cdot ", ["\u{2217}"] = "*", ["\u{2044}"] = "/", ["\u{2215}"] = "/",
  ["\u{B1}"] = "\\pm ", ["\u{2213}"] = "\\mp ", ["\u{B0}"] = "\\degree ", ["\u{BA}"] = "\\degree ",
  ["\u{221E}"] = "\\infty ", ["\u{221A}"] = "\\surd ", ["\u{222A}"] = "\\cup ",
  ["\u{2229}"] = "\\cap ", ["\u{2208}"] = "\\in ", ["\u{2216}"] = "\\setminus ",
  ["\u{2205}"] = "\\emptyset ", ["\u{D8}"] = "\\emptyset ",
  ["\u{211D}"] = "\\mathbb{R}",
  ["\u{2264}"] = "\\le ", ["\u{2265}"] = "\\ge ", ["\u{2260}"] = "\\ne ",
  ["\u{2248}"] = "\\approx ", ["\u{2A7D}"] = "\\le ", ["\u{2A7E}"] = "\\ge ",
  ["\u{2026}"] = "\\ldots ",
  ["\u{2032}"] = "'", ["\u{2019}"] = "'", ["\u{2236}"] = ":", ["\u{FF1A}"] = ":",
  ["\u{2223}"] = "|", ["\u{27E8}"] = "\\langle ", ["\u{27E9}"] = "\\rangle ",
  ["\u{20AC}"] = "\\euro ", ["\u{A3}"] = "\\pounds ", ["\u{A5}"] = "\\yen ",
  ["\u{20B9}"] = "\\rupee ", ["\u{A2}"] = "\\cent ", ["\u{20A9}"] = "\\won ",
  ["\u{2212}"] = "-", ["\u{2010}"] = "-", ["\u{2011}"] = "-", ["\u{2012}"] = "-",
  ["\u{2013}"] = "-", ["\u{FE63}"] = "-", ["\u{FF0D}"] = "-", ["\u{FF0B}"] = "+",
  ["\u{A0}"] = " ", ["\u{202F}"] = " ", ["\u{3000}"] = " ", ["\u{200B}"] = "", ["\u{FEFF}"] = "",
}
for code = 0x2000, 0x200A do symbols.characters[utf8.char(code)] = " " end

for digits, code in pairs { ["1}{4"] = 0xBC, ["1}{2"] = 0xBD, ["3}{4"] = 0xBE, ["1}{3"] = 0x2153,
  ["2}{3"] = 0x2154, ["1}{5"] = 0x2155, ["2}{5"] = 0x2156, ["3}{5"] = 0x2157, ["4}{5"] = 0x2158,
  ["1}{6"] = 0x2159, ["5}{6"] = 0x215A, ["1}{8"] = 0x215B, ["3}{8"] = 0x215C, ["5}{8"] = 0x215D,
  ["7}{8"] = 0x215E } do
  symbols.characters[utf8.char(code)] = "\\frac{" .. digits .. "}"
end

local greek = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi "
  .. "rho sigmaf sigma tau upsilon phi chi psi omega"
do
  local code = 0x3B1
  for name in greek:gmatch("%a+") do
    symbols.characters[utf8.char(code)] = "\\" .. name .. " "
    code = code + 1
  end
end

-- A run of raised or lowered digits is one exponent or one subscript.
symbols.raised = { ["\u{207B}"] = "-", ["\u{B9}"] = "1", ["\u{B2}"] = "2", ["\u{B3}"] = "3" }
symbols.lowered = {}
for digit = 0, 9 do
  if digit < 1 or digit > 3 then symbols.raised[utf8.char(0x2070 + digit)] = tostring(digit) end
  symbols.lowered[utf8.char(0x2080 + digit)] = tostring(digit)
end

-- ---- LaTeX commands -------------------------------------------------------------------

-- Commands that change how an answer looks and not what it is.
symbols.looks = set [[left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr
  displaystyle textstyle scriptstyle limits nolimits rm bf it sf tt cal quad qquad thinspace
  enspace medspace thickspace negthinspace boxed fbox mathbf boldsymbol mathit mathsf bm mathcal
  mathscr ensuremath hfill , ; : ! ]]
symbols.looks[" "] = true

-- Commands whose argument is text.
symbols.texts = set [[text textbf textit textrm textsf texttt textnormal textup mathrm mbox hbox
  operatorname emph mathop]]

-- Commands that are another spelling: of a command, an operator or a letter.
symbols.same = pairs_of [[dfrac=frac tfrac=frac cfrac=frac nicefrac=frac dbinom=binom tbinom=binom
  leq=<= le=<= leqslant=<= geq=>= ge=>= geqslant=>= lt=< gt=> ne=!= neq=!= approx=~ simeq=~ in=in
  times=* cdot=* ast=* bullet=* div=/ pm=pm mp=mp cup=cup bigcup=cup cap=cap setminus=setminus
  backslash=setminus lvert=| rvert=| vert=| mid=| lbrace={{ rbrace=}}
  lparen=( rparen=) lbrack=[ rbrack=] langle=<< rangle=>> colon=: ratio=:
  varnothing=emptyset imath=i jmath=j degree=degree prime=' lor=or vee=or land=and wedge=and
  arcsin=asin arccos=acos arctan=atan]]
symbols.same["{"], symbols.same["}"] = "{{", "}}"

-- Commands that are a letter of their own; accents make one of their argument.
symbols.letters = set(greek .. [[ varepsilon vartheta varphi varrho Gamma Delta Theta Lambda Xi
  Sigma Upsilon Phi Psi Omega ell hbar nabla aleph angle measuredangle triangle square circ
  parallel perp cong]])
symbols.accents = set "overline bar vec hat tilde overrightarrow widehat underline dot mathbb Bbb"

symbols.functions = set [[sin cos tan cot sec csc asin acos atan arcsin arccos arctan sinh cosh tanh
  ln log lg exp sqrt abs floor ceil]]

symbols.constants = pairs_of [[pi=pi infty=inf infinity=inf inf=inf oo=inf]]

-- ---- words ----------------------------------------------------------------------------

symbols.currencies = pairs_of [[euro=euro pounds=pound yen=yen rupee=rupee cent=cent won=won
  $=dollar]]

symbols.currency_units = set "dollar euro pound yen rupee cent won"

symbols.multipliers = pairs_of [[dozen=12 hundred=100 thousand=1000 million=1000000
  billion=1000000000 trillion=1000000000000]]

-- Words before a unit, and the exponent that they stand for.
symbols.unit_prefixes = { sq = 2, square = 2, cu = 3, cubic = 3 }

-- Words behind a number that change its value.
symbols.not_units = set [[squared cubed times plus minus over divided by factorial half halves third
  thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths
  ninth ninths tenth tenths hundredth hundredths thousandth thousandths mil not]]

symbols.percent = set "percent percentage pct"

-- Units that have several names; the first is the one that is compared.
local units = [[dollar dollars usd; euro euros eur; pound pounds gbp; yen jpy; rupee rupees rs inr;
  cent cents penny pennies; won krw;
  mm millimeter millimeters millimetre millimetres;
  cm centimeter centimeters centimetre centimetres;
  m meter meters metre metres; km kilometer kilometers kilometre kilometres;
  inch inches in; foot feet ft; yard yards yd; mile miles mi;
  mg milligram milligrams; g gram grams gm; kg kilogram kilograms kgs; lb lbs; oz ounce ounces;
  ton tons tonne tonnes;
  ml milliliter milliliters millilitre millilitres mL;
  l liter liters litre litres L; gallon gallons gal; quart quarts; pint pints; cup cups;
  s second seconds sec secs; min minute minutes mins; h hour hours hr hrs; day days; week weeks;
  month months; year years yr yrs; mph; kmh kph; degree degrees deg; radian radians rad;
  hz; bit bits; byte bytes; watt watts; kw; volt volts; joule joules; newton newtons; mol moles]]
-- Names of one word for units that are made of several, as Parser:unit writes those.
symbols.rates = { mph = "h^-1*mile", kmh = "h^-1*km" }

symbols.units = {}
for group in units:gmatch("[^;]+") do
  local first = group:match("%a+")
  for name in group:gmatch("%a+") do symbols.units[name] = first end
end

--- Whether all parts of a unit are known: "m*s^-2" is, "apples" is not.
function symbols.is_known_unit(name)
  for part in name:gmatch("[^*]+") do
    local base = part:match("^[^%^]+")
    if symbols.units[base] ~= base and not base:find("^base:") then return false end
  end
  return true
end

-- Units of one letter; elsewhere these are variables.
symbols.short_units = set "m g s h l L"

-- Units of two letters that may stand next to a number without a space; others would be products.
symbols.joined_units = set "cm mm km kg ml mL"

return symbols
