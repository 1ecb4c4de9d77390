"""Writes tests/cases/math/pairs.jsonl: pairs of answers, whether they are the same by our own
verdict, and what math_verify decides.

Run in an environment with `pip install math-verify==0.9.0`:

    python3 tests/oracles/math_pairs.py > tests/cases/math/pairs.jsonl

A row is [kind, gold, answer, want, math_verify].  want: 1 equal, 0 different, null where the gold
answer cannot be judged (words, or a notation that is not read).  Where want and math_verify differ,
the verdict by hand counts: math_verify drops units and reads 5 km as 5 m, compares to six digits
after the point, has no repeating decimals, and takes (1, 2) for {1, 2}.
"""
import json
import logging
import signal
import sys

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

logging.disable(logging.CRITICAL)

SAME, OTHER, UNKNOWN = 1, 0, None


def families():
    """(kind, spellings of one value, values that differ from it)."""
    yield "integer", ["1234", "1,234", "1{,}234", "1 234", r"1\,234", r"1\ 234", "1\u202f234",
                      "1\u00a0234", "1'234", r"1,\!234", "+1234", "01234", "1234.0", "1234.",
                      r"\mathbf{1234}", "**1234**", "$1234$", r"\(1234\)", "1.234e3",
                      r"1.234 \times 10^3", "1234/1"], ["1,235", "-1234", "1", "234", "1.234",
                                                         "12340", "1 235"]
    yield "integer", ["-73", "\u221273", "\u201373", "(-73)", "-73.00", "- 73", r"{-73}"], [
        "73", "-74", "+73", "-7.3", "7-3"]
    yield "integer", ["1000000", "1,000,000", r"10^6", "1e6", r"1\,000\,000", "1 000 000",
                      "1{,}000{,}000", r"10^{6}", "1.000.000", "1 million"], [
        "1000001", "100000", "10^7", "1,000", "1e5"]
    yield "integer", ["123456789012345678901234567890"], ["123456789012345678901234567891",
                                                           r"1.2345678901234568 \times 10^{29}"]
    yield "fraction", ["8/3", r"\frac{8}{3}", r"\frac83", r"\dfrac{8}{3}", r"\tfrac 83",
                       r"\cfrac{8}{3}", "8 / 3", r"\frac{16}{6}", r"2\frac{2}{3}", "2 2/3",
                       r"2\ \frac{2}{3}", r"2\,\frac23", "2\u2154", r"\left(\frac{8}{3}\right)",
                       r"2.\overline{6}", "2.(6)", "2.666...", r"\frac{-8}{-3}", r"8 \div 3",
                       r"8\cdot\frac13", r"\displaystyle\frac{8}{3}", "2.666\u2026", r"{8 \over 3}", r"8 \over 3", r"2.\dot{6}",
                       "2+2/3"], ["22/3", "3/8", "-8/3", "2.67", "2.6", "4/3", "2",
                                   "2/3", r"2\cdot\frac{2}{3}", "2.6666666666"]
    yield "fraction", ["-7/2", r"-\frac{7}{2}", r"\frac{-7}{2}", r"\frac{7}{-2}", r"-3\frac{1}{2}",
                       "-3 1/2", "-3.5", "\u22123.5", r"-\dfrac72", "-3\u00bd"], [
        "7/2", "-5/2", r"3\frac{1}{2}", "-31/2", "-3 1/3", "-2.5"]
    yield "decimal", ["0.05", ".05", "5e-2", r"5 \times 10^{-2}", "1/20", r"\frac{1}{20}", "0.050",
                      r"5\cdot10^{-2}", "0{,}05"], ["0.5", "0.005", "5e2", "0.051", "-0.05", "500"]
    yield "decimal", ["0.142857142857...", "1/7", r"0.\overline{142857}"], ["0.142857", "0.14",
                                                                             r"\frac{1}{8}"]
    yield "decimal", [r"0.1\overline{6}", "1/6", "0.1(6)", "0.1666..."], ["0.16", "0.17", "1/60"]
    yield "percent", [r"12.5\%", "12.5%", "12.5 percent", r"12.5\text{ percent}", "12.5 %",
                      r"\frac{25}{2}\%", "0.125"], ["12.5e3", r"125\%", r"1.25\%", "13%"]
    yield "percent", ["50%", "1/2", "0.5"], ["5%", "0.05", "500%"]
    yield "percent", ["50%", "50"], ["51", "5", "500"]
    yield "money", ["42", "$42", r"\$42", "42$", "\u20ac42", "42 \u20ac", "\u00a342", "\u00a542",
                    "\u20b942", "42 dollars", "42 USD", r"42\text{ dollars}", "$42.00", "US$42",
                    r"\text{\$}42"], ["$43", "-$42", r"\$4.2", "$420"]
    yield "money", ["-5", "-$5", "$-5", r"-\$5"], ["$5", "5"]
    yield "money", ["1234.5", "$1,234.50", r"\$1{,}234.50", "1,234.50 dollars"], ["$1,234.05",
                                                                               "$1,235"]
    yield "unit", ["12", r"12\text{ cm}", r"12\ \mathrm{cm}", "12 cm", "12cm", r"12\text{ cm}^2",
                   r"12\,\mathrm{cm}^{2}", r"12\text{ square units}", "12 apples", "12 sq ft", "12 square feet", "12 km/h",
                   r"12\text{ km/h}", r"12\text{ miles per hour}", r"12^\circ", r"12^{\circ}",
                   "12\u00b0", "12 degrees", r"12\text{ m}", r"12\,\text{m/s}^2", "12 m",
                   r"12\ \text{sq. ft}"], [r"13\text{ cm}", r"1.2\text{ cm}", r"12x", r"12\pi",
                                           "12 dozen", "12 million"]
    yield "unit", [r"6\pi\text{ cm}", r"6\pi"], [r"6\text{ cm}", r"7\pi\text{ cm}"]
    yield "unit", ["5 km", "5 kilometers", r"5\text{ km}"], ["5 m", "5000 m", "5 hours"]
    yield "unit", [r"25\text{ cm}^2", "25 cm^2", "25 sq cm", "25 square centimeters"], [
        "25 cm^3", "25 cubic cm", "26 cm^2", r"25\text{ cm}"]
    yield "unit", ["5 m/s", "5 meters per second", r"5\text{ m/s}"], ["5 m", "5 m/s^2", "5 km/s"]
    yield "unit", ["60 mph", "60 miles per hour"], ["60 miles", "60 km/h"]
    yield "unit", [r"\$5", r"\$5 per hour", "5 dollars an hour"], [r"5\%", "5 euros"]
    yield "unit", ["5 bits", "5"], ["4 bits"]
    yield "unit", ["5 bits"], ["5 bytes"]
    yield "set", [r"\{1, 2\}", r"\{1, 1, 2\}", r"\{2, 1\}"], [r"\{1, 2, 3\}", r"\{1\}"]
    yield "tuple", ["(1, 2)", r"\langle 1, 2 \rangle"], [r"\langle 2, 1 \rangle", "[1, 2]"]
    yield "choice", ["(A) 5", "5", r"\textbf{(A)}\ 5"], ["(A) 6", "6", "(B) 5"]
    yield "unit", ["$0.50", "0.5 dollars"], ["50 cents", "0.5 cents"]
    yield "assignment", ["7", "x = 7", "x=7", r"x_1 = 7", r"\text{Area} = 7", "n = 7", "= 7",
                         "f(2) = 7", r"\angle ABC = 7", "3 + 4 = 7", r"x = 3 + 4 = 7", "Answer: 7",
                         r"AB = 7", "The answer is 7", "7 = 7"], [
        "x = 8", "x = -7", "3 + 5 = 7", "7x", "x + 1 = 7", "2x = 7", "x > 7"]
    yield "root", [r"2\sqrt{3}", r"\sqrt{12}", r"2 \sqrt 3", r"2\sqrt3", "2*sqrt(3)", "2\u221a3",
                   r"\frac{6}{\sqrt{3}}", r"2 \cdot 3^{1/2}", r"12^{0.5}", r"\sqrt{4\cdot3}",
                   r"\sqrt{3}+\sqrt{3}"], [r"3\sqrt{2}", r"\sqrt{6}", "3.46", "3.4641",
                                           r"2+\sqrt{3}", r"\sqrt[3]{12}", r"-2\sqrt{3}",
                                           "3.46410161514"]
    yield "root", [r"\frac{\sqrt{2}}{2}", r"1/\sqrt2", r"\frac{1}{\sqrt{2}}", r"\sin 45^\circ",
                   r"\cos\frac{\pi}{4}", r"\sqrt{\frac12}", r"2^{-1/2}", r"\frac{\sqrt2}2"], [
        r"\sqrt{2}", r"\frac{\sqrt{3}}{2}", "0.7071", r"\tan 45^\circ"]
    yield "root", ["-2", r"\sqrt[3]{-8}", r"-\sqrt{4}"], ["2", r"\sqrt{4}"]
    yield "root", [r"1+\sqrt{2}", r"\sqrt{3+2\sqrt{2}}", r"\sqrt2+1", r"\frac{1}{\sqrt{2}-1}"], [
        r"1-\sqrt{2}", r"\sqrt{3}", r"\sqrt{1+2}"]
    yield "root", ["3", r"\sqrt[4]{81}", r"\sqrt{9}", r"27^{1/3}", r"27^{\frac{1}{3}}"], ["9", "-3"]
    yield "pi", [r"\frac{\pi}{3}", r"\pi/3", r"\frac13\pi", r"\frac{1}{3} \pi", "pi/3", "\u03c0/3",
                 r"\arccos\frac12", r"\frac{2\pi}{6}"], [r"\frac{3}{\pi}", r"\frac{\pi}{6}",
                                                         r"60", "1.047", r"\frac{-\pi}{3}"]
    yield "pi", [r"36\pi", r"36 \pi", "36pi", r"\pi \cdot 6^2"], [r"6\pi", "36",
                                                                            "113.1", "36p"]
    yield "power", ["1024", "2^{10}", "2^10", r"2^5 \cdot 2^5", "4^5", r"(2^2)^5", "32^2"], [
        r"2^{11}", "20", r"2 \cdot 10", "10^2"]
    yield "power", [r"3^{1/2}", r"\sqrt{3}", r"3^{0.5}", r"3^{\frac{1}{2}}"], ["3/2", "1.5"]
    yield "power", [r"2^{100}", "1267650600228229401496703205376", r"4^{50}"], [
        "1267650600228229401496703205377", r"2^{101}"]
    yield "power", ["1500", r"1.5 \times 10^{3}", "1.5 x 10^3", "1.5e3", "1.5E3", "1.5*10^3",
                    r"1.5\cdot 10^3", "1.5 \u00d7 10\u00b3", r"15 \times 10^2"], [
        r"1.5 \times 10^{4}", "1.5", "15", r"1.5 \times 10^{-3}"]
    yield "factorial", ["120", "5!", r"\frac{6!}{6}", r"5 \cdot 4!", r"\binom{10}{3}",
                        r"\binom{16}{2}"], ["5", "6!", "5!!"]
    yield "factorial", ["3628800", "10!"], ["10", "9!"]
    yield "factorial", ["10", r"\binom{5}{2}", r"\binom{5}{3}", r"\dbinom52", r"{5 \choose 2}"], ["20",
                                                                             r"\binom{5}{1}"]
    yield "logarithm", ["5", r"\log_2 32", r"\log_{2}{32}", r"\log_2(32)", r"\ln e^5",
                        r"\log 100000", r"\log_{10} 100000", r"\lg 100000",
                        r"\frac{\ln 32}{\ln 2}"], [r"\log_2 16", r"\ln 5", r"\log_3 32",
                                                   r"\ln 100000"]
    yield "logarithm", [r"2\ln 3", r"\ln 9", r"\ln(9)", r"\ln 3 + \ln 3", "ln 9"], [
        r"\ln 6", r"\ln 3", r"\log 9"]
    yield "trigonometry", ["1", r"\tan 45^\circ", r"\tan\frac{\pi}{4}", r"\sin 90^\circ",
                           r"\cos 0", r"\sin^2 30^\circ + \cos^2 30^\circ", r"\sin(\pi/2)"], [
        r"\tan 45", r"\cos 90^\circ", r"\sin 90"]
    yield "trigonometry", [r"\frac{\pi}{2}", r"\arcsin 1", r"\sin^{-1}(1)", r"2\arctan 1"], [
        r"\arcsin 0", r"\sin 1"]
    yield "constant", ["e", r"e^1", r"\exp(1)"], ["2.718", r"e^2", r"1/e"]
    yield "absolute", ["2", "|-2|", r"\left|-2\right|", r"\lvert -2\rvert", r"|1-3|", r"|\,2|",
                       r"\lfloor 2.7\rfloor", r"\lceil 1.2 \rceil"], ["-2", "|-3|", "-|2|"]
    yield "complex", ["2+13i", "13i+2", r"2 + 13 i", r"2+13\mathrm{i}", r"(2+13i)", r"z = 2+13i"], [
        "2-13i", "13+2i", "2+13", "-2+13i", "15i", "2+13x"]
    yield "complex", ["-1", r"i^2", r"i \cdot i", r"e^{i\pi}"], ["1", "i"]
    yield "complex", [r"\frac{1+i}{2}", r"\frac12+\frac12i", r"\frac{1}{2}+\frac{i}{2}",
                      r"\frac{1}{1-i}"], [r"\frac{1-i}{2}", r"1+i"]
    yield "polynomial", ["x^2+2x+1", "(x+1)^2", "1+2x+x^2", "x^2 + 2 x + 1", "(1+x)(x+1)",
                         r"x(x+2)+1", "x^{2}+2x+1", "x**2+2*x+1"], [
        "x^2+2x", "(x-1)^2", "x^2+1", "y^2+2y+1", "x^2+2x+1.0000001", "2x^2+4x+2"]
    yield "polynomial", ["3x", "x+x+x", r"3 \cdot x", r"x \cdot 3", "3(x)", r"\frac{6x}{2}"], [
        "3", "x", "3y", "x^3", "3+x"]
    yield "polynomial", [r"\frac{x+1}{2}", r"\frac12x+\frac12", "(x+1)/2", "0.5x+0.5"], [
        r"\frac{x}{2}+1", r"\frac{2}{x+1}", r"x+\frac12"]
    yield "polynomial", [r"\frac{1}{x}-\frac{1}{x+1}", r"\frac{1}{x(x+1)}", r"\frac{1}{x^2+x}"], [
        r"\frac{1}{x^2-x}", r"\frac{1}{x^2}"]
    yield "polynomial", ["2ab", "2ba", r"2a \cdot b", "2 a b", "b(2a)"], [
        "2a+b", "2a", "2a^b", "2abc", "2"]
    yield "polynomial", [r"2\pi r", r"2 \pi r", r"2r\pi"], [r"\pi r^2", r"2r", r"2\pi R"]
    yield "polynomial", [r"\sqrt{x^2+1}", r"(x^2+1)^{1/2}"], ["x+1", r"\sqrt{x^2-1}", "x"]
    yield "polynomial", ["|x|", r"\sqrt{x^2}"], ["x", "-x"]
    yield "polynomial", [r"2^{n+1}", r"2\cdot 2^n", r"2^{n}+2^{n}"], [r"2^n+1", r"4^n", r"2n+1"]
    yield "equation", ["y = 2x+1", "y=2x+1", "y = 1+2x", "2x - y + 1 = 0", "y - 2x = 1",
                       "2y = 4x + 2", "2x+1 = y", r"\frac{y-1}{2}=x"], [
        "y = 2x-1", "y = x+1", "2x+y+1=0", "x = 2y+1", "y > 2x+1"]
    yield "equation", ["2x+3y=6", "4x+6y=12", "6 = 2x+3y", r"y = 2-\frac{2x}{3}",
                       r"\frac{x}{3}+\frac{y}{2}=1"], ["3x+2y=6", "2x+3y=12", "2x-3y=6",
                                                      "2x+3y", "6"]
    yield "equation", ["y = 2x+1", "2x+1"], ["2x-1"]
    yield "equation", ["x^2+y^2=25", "25 = x^2+y^2", "x^2 + y^2 - 25 = 0"], [
        "x^2-y^2=25", "x^2+y^2=5", "x^2+y^2=24.999"]
    yield "equation", ["x = 2", "2 = x", "2x = 4", "x - 2 = 0"], ["x = 3", "y = 2", "x = -2",
                                                                   "2x = 2"]
    yield "function", ["f(x) = 2x", "f(x)=x+x", "2x"], ["f(x) = 3x", "f(x)=2"]
    yield "set", [r"\{1, 2, 3\}", r"\{3,2,1\}", "1, 2, 3", "3, 1, 2", "1,2,3",
                  r"\left\{1,2,3\right\}", "1, 2 and 3", r"1, 2, \text{ and } 3", "{1,2,3}",
                  "1; 2; 3"], [r"\{1,2\}", r"\{1,2,4\}", "1,2", "6", r"\{1,2,3,4\}", "123"]
    yield "set", [r"\{-2, 2\}", r"\pm 2", "2, -2", "-2, 2", r"x = \pm 2", r"x = 2, -2",
                  r"x = 2 \text{ or } x = -2", "2 or -2", "\u00b12", r"x = 2, x = -2",
                  r"x \in \{-2, 2\}", "x_1 = 2, x_2 = -2"], ["2", "-2", "2, 2", r"\pm 3", "0"]
    yield "set", [r"\emptyset", r"\varnothing", r"\{\}", "\u2205"], ["0", r"\{0\}"]
    yield "set", [r"\{\frac{1}{2}, 3\}", "0.5, 3", r"3, \frac12"], ["1, 2, 3", r"\frac13, 2"]
    yield "set", [r"\{100, 200\}", "100, 200", "200, 100"], ["100", "300"]
    yield "set", [r"1 \pm \sqrt{2}", r"1+\sqrt2, 1-\sqrt2", r"\{1-\sqrt{2}, 1+\sqrt{2}\}",
                  r"x = 1 \pm \sqrt{2}", r"\frac{2\pm\sqrt{8}}{2}"], [
        r"1+\sqrt{2}", r"\pm 1+\sqrt{2}", r"-1\pm\sqrt2", r"1\pm\sqrt3"]
    yield "tuple", ["(3, -1)", "(3,-1)", r"\left(3,-1\right)", r"(\frac{6}{2}, -1)", "3, -1",
                    "x = 3, y = -1", "(x, y) = (3, -1)", "(3, \u22121)", "(3.0, -1.0)"], [
        "(-1, 3)", "(3, 1)", "(3, -1, 0)", r"(3, -1]", r"[3, -1]", "2"]
    yield "tuple", ["(1,2),(3,4)", "(3,4),(1,2)", r"\{(1,2),(3,4)\}", r"(1,2) \text{ and } (3,4)"], [
        "(2,1),(4,3)", "(1,2)", "(1,3),(2,4)"]
    yield "tuple", ["(1,2,3)", "(1, 2, 3)", r"\left( 1, \frac{4}{2}, 3 \right)"], ["(3,2,1)",
                                                                              "(1,2)", "6"]
    yield "interval", ["[1, 2)", "[1,2)", r"\left[1,2\right)", r"x \in [1,2)", r"1 \le x < 2",
                       r"2 > x \geq 1", r"[1, \frac{4}{2})"], ["(1,2)", "[1,2]", "(1,2]", "[2,1)",
                                                             "[1,3)", r"1 < x < 2",
                                                             r"1 \le x \le 2"]
    yield "interval", [r"(3,\infty)", "x > 3", "3 < x", r"(3, +\infty)", r"x \in (3, \infty)",
                       "(3, \u221e)"], [r"[3,\infty)", r"(-\infty,3)", "x < 3", r"x \ge 3",
                                        r"(3,-\infty)", "3"]
    yield "interval", [r"(-\infty,2)\cup(13,\infty)", r"(13,\infty)\cup(-\infty,2)",
                       r"(-\infty, 2) \cup (13, \infty)", r"x \in (-\infty,2)\cup(13,\infty)",
                       "(-\u221e, 2) \u222a (13, \u221e)"], [
        r"(-\infty,2]\cup(13,\infty)", r"(-\infty,2)\cap(13,\infty)", r"(-\infty,2)", "(2,13)"]
    yield "interval", [r"\mathbb{R}", r"(-\infty,\infty)", "\u211d"], [r"(0,\infty)", r"[0,1]"]
    yield "inequality", [r"2x > 6", "x > 3", "6 < 2x", r"x-3>0"], ["x < 3", "x > 6", r"x \ge 3",
                                                                      "-x > 3"]
    yield "inequality", [r"x \neq 2", r"x \ne 2", "x != 2"], ["x = 2",
                                                                                    r"x \neq 3"]
    yield "infinity", [r"\infty", "infinity", r"+\infty", "\u221e"], [r"-\infty", "0", "8"]
    yield "infinity", [r"-\infty", "\u2212\u221e"], [r"\infty", "0"]
    yield "matrix", [r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
                     r"\begin{bmatrix}1&2\\3&4\end{bmatrix}",
                     r"\left(\begin{array}{cc} 1 & 2 \\ 3 & 4 \end{array}\right)",
                     r"\begin{pmatrix} 1 & \frac{4}{2} \\ 3 & 4 \\ \end{pmatrix}",
                     r"\frac12\begin{pmatrix} 2 & 4 \\ 6 & 8 \end{pmatrix}",
                     r"-\begin{pmatrix} -1 & -2 \\ -3 & -4 \end{pmatrix}"], [
        r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 & 3 & 4 \end{pmatrix}",
        r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}", r"\begin{pmatrix} 1 & 2 \end{pmatrix}", "-2",
        "1, 2, 3, 4"]
    yield "matrix", [r"\begin{pmatrix} 2 \\ -1 \end{pmatrix}", r"\begin{bmatrix}2\\-1\end{bmatrix}",
                     "\\begin{pmatrix}\n2\\\\\n-1\n\\end{pmatrix}"], [
        r"\begin{pmatrix} -1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 2 & -1 \end{pmatrix}"]
    yield "choice", ["B", "(B)", r"\text{B}", r"\textbf{(B)}", r"\text{(B)}", r"\mathbf{B}",
                     r"\mathrm{(B)}", "**B**", "B.", r"\textbf{(B)}\ 12", "(B) 12", "b"], [
        "C", "(C)", r"\textbf{(C)}\ 12", "AB", "8", "B+1"]
    yield "choice", ["(C) 7", "C", r"\textbf{(C) }7", "C. 7", "C: 7"], ["(C) 8", "(B) 7", "(A) or (C)"]
    yield "choice", ["A", "(A) Paris", r"(A)"], ["(A) or (B)", "A, B", "(A)(B)", "A and B", "not A"]
    yield "ratio", ["5:3", "5 : 3", r"5\colon 3", "10:6", "5/3"], ["3:5", "5:4", "5"]
    yield "words", ["5", "5 more", "5 in total"], ["5 squared", "5 thirds", "5 and a half", "5 dozens",
                                                   "5 feet 6 inches", "5 times 3", "5 or more"]
    yield "words", ["2000000", "2 million", "2 millions", r"2\text{ million}", "$2 million"], [
        "2", "2 thousand", "2 billion"]
    yield "left side", ["0", "x = 0", "f(0) = 0"], ["(x-2)(x-3) = 0", "x(x-1) = 0", "x^2 = 0",
                                                   "x > 0", r"x \ne 0", "1/x = 0", "-x = 0 + 1"]
    yield "left side", ["5", "f^{-1}(3) = 5", "P(A) = 5", "f(-1) = 5", "|AB| = 5", "S_n = 5",
                        "BC = 5", "f'(2) = 5"], ["|x| = 5", "x(x+1) = 5", "x^{-1} = 5", "-x = 5"]
    yield "percent", ["0.05", r"5\%"], [r"0.05\%", r"0.5\%"]
    yield "counting", [r"\frac{n(n-1)}{2}", r"\binom{n}{2}", r"\frac{n!}{2(n-2)!}"], [
        r"\binom{n}{3}", r"\frac{n(n+1)}{2}", "n!", r"\frac{n^2}{2}"]
    yield "counting", ["n!", "n(n-1)!", " n! "], ["n", "(n+1)!", "n^n", "n!!"]
    yield "approximate", [r"\frac{\pi}{2}", r"\frac{\pi}{2} \approx 1.57",
                          r"x = \frac{\pi}{2} \approx 1.57"], ["1.57", r"x \approx 1.57"]
    yield "subscript", ["1234_5", r"1234_{5}"], ["1234_6", "1243_5"]
    yield "subscript", ["a_1+a_2", "a_2+a_1", r"a_{1}+a_{2}"], ["a_1+a_3", "a_1", "2a_1"]


ONE_WAY = [("polynomial", "a b", "ab", SAME), ("polynomial", r"a \cdot b", "ab", SAME),
           ("polynomial", "a b", "ac", OTHER), ("polynomial", "x y z", "xyz", SAME)]

NEITHER = [  # the gold answer cannot be judged
    ("words", r"\text{no solution}", "no solution"), ("words", "paris", "7"),
    ("words", "Tuesday", "Tuesday"), ("words", "forty two", "42"), ("words", "yes", "no"),
    ("words", "ab", "ba"), ("words", r"\text{Yes}", r"\text{Yes}"), ("words", "see the figure", "B"),
    ("unread", r"\begin{cases} x & x>0 \\ 0 & x \le 0 \end{cases}", "x"),
    ("unread", r"\int_0^1 x\,dx", r"\frac12"), ("unread", r"\sum_{k=1}^n k", "n"),
    ("unread", r"1/2x", r"\frac{x}{2}"), ("unread", r"\lim_{x\to0} x", "0"),
]


class TooLong(Exception):
    pass


def too_long(*_):
    raise TooLong


def parsed(text):
    config = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    return parse("\\boxed{" + text + "}", extraction_config=config, parsing_timeout=None)


def decided(gold, answer):
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(20)
    try:
        return int(verify(parsed(gold), parsed(answer), timeout_seconds=None))
    except TooLong:
        return None
    finally:
        signal.alarm(0)


def pairs():
    for kind, same, others in families():
        gold = same[0]
        for answer in same[1:]:
            yield kind, gold, answer, SAME
            yield kind, answer, gold, SAME
        for answer in others:
            yield kind, gold, answer, OTHER
            if len(same) > 1:
                yield kind, same[1 + len(answer) % (len(same) - 1)], answer, OTHER
    yield from ONE_WAY
    for kind, gold, answer in NEITHER:
        yield kind, gold, answer, UNKNOWN


def main():
    seen = set()
    for kind, gold, answer, want in pairs():
        if (gold, answer) in seen:
            continue
        seen.add((gold, answer))
        row = [kind, gold, answer, want, decided(gold, answer)]
        print(json.dumps(row, ensure_ascii=False), file=sys.stdout)


main()
