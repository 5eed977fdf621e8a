/** The environment, as far as a command uses it: tokens of git hosts. They are stored nowhere and sent to one origin. */
type Environment = Readonly<Record<string, string | undefined>>;

let environment: Environment = {};

/** main.ts hands it in, which alone reads it. */
export const useEnvironment = (given: Environment): void => {
  environment = given;
};

/** undefined where it is not set or empty. */
export const tokenIn = (variable: string): string | undefined => environment[variable]?.trim() || undefined;
