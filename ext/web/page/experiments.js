// The experiments to choose from; `about` is shown above the script.  The first is the starter.
export const experiments = [
  { id: "sums", name: "Sums", script: "sums.lua", files: [],
    about: "A model of 90,000 weights learns to add: first from a teacher who is wrong half of the time, then from rewards." },
  { id: "words", name: "Word problems", script: "words.lua", files: [],
    about: "\u201cTom has 5 pens and gets 3 more. How many now?\u201d Two rewards make the model better than its teacher." },
  { id: "shakespeare", name: "Tiny Shakespeare", script: "shakespeare.lua", files: ["shakespeare.txt"],
    about: "A few pages of a play, with a reward for each character. After the first stage it has only rewards to learn from." },
  { id: "tictactoe", name: "Tic-tac-toe", script: "tictactoe.lua", files: [],
    about: "Whole games against random moves. The first stage shows the rules, and no good move: these come from winning." },
];
